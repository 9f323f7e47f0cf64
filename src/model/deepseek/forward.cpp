#include "model/deepseek/forward.h"

#include <algorithm>

#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"

namespace fathom {
DeepseekModel::DeepseekModel(const DeepseekConfig& config, const DeepseekWeights& weights,
                             ExpertStore& experts, const KernelContext& context, int64_t row_chunk)
    : config_(config),
      shape_(shape_of(config)),
      weights_(&weights),
      context_(&context),
      row_chunk_(row_chunk),
      eps_(static_cast<float>(config.rms_norm_eps)),
      mla_(config, context),
      moe_(config, context, experts) {}

void DeepseekModel::reserve(Sweep& sweep) {
  const int64_t n = sweep.size();
  const int64_t chunk = std::min(n, row_chunk_);
  sweep.hidden = Matrix(n, config_.hidden_size);
  sweep.normed = Matrix(n, config_.hidden_size);
  int64_t pages = 0;
  for (const SweepRow& row : sweep.rows) pages = std::max(pages, row.cache->page_count());
  mla_.reserve(chunk, pages);
  moe_.reserve(n);
  if (mlp_out_.rows() < chunk) {
    const int64_t shared = config_.moe_intermediate_size * config_.n_shared_experts;
    const int64_t intermediate = std::max(config_.intermediate_size, shared);
    gate_ = Matrix(chunk, intermediate);
    up_ = Matrix(chunk, intermediate);
    mlp_out_ = Matrix(chunk, config_.hidden_size);
  }
}

void DeepseekModel::begin(Sweep& sweep) {
  begin(sweep, {});
  embed(sweep, weights_->embed_tokens, sweep.hidden);
}

void DeepseekModel::begin(Sweep& sweep, Span2d<const float> embeddings) {
  prepare_caches(sweep);
  reserve(sweep);
  sweep.next_layer = 0;
  for (int64_t i = 0; i < embeddings.rows; ++i) {
    std::copy_n(embeddings.row(i), embeddings.cols, sweep.hidden.row(i));
  }
}

void DeepseekModel::embed(const Sweep& sweep, const Embedding& table, Span2d<float> out) const {
  for (int64_t i = 0; i < sweep.size(); ++i) {
    table.row(sweep.rows[static_cast<size_t>(i)].token, out.row(i));
  }
}

// h += attention(norm(h)); h += mlp(norm(h)).
bool DeepseekModel::advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) {
  const int64_t layer = sweep.next_layer;
  if (trace.hidden_states != nullptr && layer == 0) {
    trace.hidden_states->push_back(copy_of(sweep.hidden));
  }
  const LayerWeights& w = weights_->layers[static_cast<size_t>(layer)];
  attention(w, layer, sweep, cancel, trace);
  guess_next_experts(layer + 1, sweep);
  mlp(w, layer, sweep, cancel);
  sweep.next_layer = layer + 1;
  const bool last = layer + 1 >= config_.num_hidden_layers;
  if (trace.hidden_states != nullptr) {
    trace.hidden_states->push_back(copy_of(sweep.hidden));
    if (last) {
      Matrix& normed = trace.hidden_states->back();
      rms_norm(*context_, normed, weights_->norm, eps_, normed);
    }
  }
  return !last;
}

void DeepseekModel::attention(const LayerWeights& w, int64_t layer, Sweep& sweep,
                              const CancelToken* cancel, const SweepTrace& trace) {
  const PartTimer timer(&times_.attention);
  const int64_t n = sweep.size();
  Span2d<float> probabilities;
  if (trace.attentions != nullptr) {
    probabilities = trace.attentions->emplace_back(n * config_.num_attention_heads,
                                                   sweep.rows[0].cache->length());
  }
  // Chunks go in ascending order: a row attends to what earlier rows have cached.
  for (int64_t first = 0; first < n; first += row_chunk_) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const int64_t count = std::min(row_chunk_, n - first);
    const Span2d<float> hidden = sweep.hidden.view().middle_rows(first, count);
    const Span2d<float> normed = sweep.normed.view().middle_rows(first, count);
    rms_norm(*context_, hidden, w.input_layernorm, eps_, normed);
    Span2d<float> part;
    if (trace.attentions != nullptr) {
      part = probabilities.middle_rows(first * config_.num_attention_heads,
                                       count * config_.num_attention_heads);
    }
    mla_.forward(
        w.attention, layer,
        std::span(sweep.rows).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
        normed, hidden, trace.attentions != nullptr ? &part : nullptr);
  }
}

// What the next layer's router says of the residual stream as it is before this layer's MLP. After
// the last layer comes the first one of another token, of which nothing is known yet.
void DeepseekModel::guess_next_experts(int64_t layer, Sweep& sweep) {
  if (layer >= config_.num_hidden_layers || !moe_.wants_guess(sweep.size())) return;
  const LayerWeights& w = weights_->layers[static_cast<size_t>(layer)];
  if (!w.moe) return;
  rms_norm(*context_, sweep.hidden, w.post_attention_layernorm, eps_, sweep.normed);
  moe_.guess(w, layer, sweep.normed);
}

void DeepseekModel::mlp(const LayerWeights& w, int64_t layer, Sweep& sweep,
                        const CancelToken* cancel) {
  const Span2d<float> normed = sweep.normed;
  rms_norm(*context_, sweep.hidden, w.post_attention_layernorm, eps_, normed);
  if (w.moe) {
    // Straight into the residual stream: a sum kept apart would take as much memory again for
    // every token of a prompt.
    const PartTimer timer(&times_.experts);
    moe_.forward(w, layer, normed, sweep.hidden, cancel);
  }
  const GatedMlp& every_row = w.moe ? w.shared_experts : w.dense_mlp;
  if (every_row.gate.empty()) return;
  const PartTimer timer(&times_.mlp);
  for (int64_t first = 0; first < sweep.size(); first += row_chunk_) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const int64_t count = std::min(row_chunk_, sweep.size() - first);
    const Span2d<float> out = mlp_out_.view().middle_rows(0, count);
    gated_mlp(*context_, normed.middle_rows(first, count), every_row, gate_, up_, out);
    add_to(out, sweep.hidden.view().middle_rows(first, count));
  }
}

void DeepseekModel::final_hidden(const Sweep& sweep, Span2d<float> out) const {
  copy_wanting(sweep, out);
  rms_norm(*context_, out, weights_->norm, eps_, out);
}

void DeepseekModel::head(Span2d<const float> final_hidden, Span2d<float> logits) const {
  const PartTimer timer(&times_.head);
  linear(*context_, final_hidden, weights_->lm_head, logits);
}

// z = eh_proj(concat[enorm(embed(t_{i+1})), hnorm(h_i)]).
void DeepseekModel::begin_mtp(Sweep& sweep, Span2d<const float> final_hidden) {
  const MtpWeights& mtp = weights_->mtp;
  const int64_t hidden = config_.hidden_size;
  reserve(sweep);
  sweep.next_layer = config_.num_hidden_layers;
  Matrix joined(sweep.size(), 2 * hidden);
  const Span2d<float> embedded = joined.view().middle_cols(0, hidden);
  const Span2d<float> previous = joined.view().middle_cols(hidden, hidden);
  embed(sweep, mtp.embed_tokens, embedded);
  rms_norm(*context_, embedded, mtp.enorm, eps_, embedded);
  rms_norm(*context_, final_hidden, mtp.hnorm, eps_, previous);
  linear(*context_, joined, mtp.eh_proj, sweep.hidden);
}

void DeepseekModel::mtp_head(const Sweep& sweep, Span2d<float> logits) const {
  Matrix normed(logits.rows, config_.hidden_size);
  copy_wanting(sweep, normed);
  rms_norm(*context_, normed, weights_->mtp.shared_head_norm, eps_, normed);
  linear(*context_, normed, weights_->mtp.shared_head, logits);
}

}  // namespace fathom
