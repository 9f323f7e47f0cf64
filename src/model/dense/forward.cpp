#include "model/dense/forward.h"

#include <algorithm>

#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"

namespace fathom {

DenseModel::DenseModel(const DenseConfig& config, const DenseWeights& weights,
                       const KernelContext& context, int64_t row_chunk)
    : config_(config),
      shape_(shape_of(config)),
      weights_(&weights),
      context_(&context),
      row_chunk_(row_chunk),
      eps_(static_cast<float>(config.rms_norm_eps)),
      attention_(config, context) {}

void DenseModel::begin(Sweep& sweep) {
  begin(sweep, {});
  for (int64_t i = 0; i < sweep.size(); ++i) {
    weights_->vocabulary.embed_tokens.row(sweep.rows[static_cast<size_t>(i)].token,
                                          sweep.hidden.row(i));
  }
}

void DenseModel::begin(Sweep& sweep, Span2d<const float> embeddings) {
  prepare_caches(sweep);
  const int64_t n = sweep.size();
  const int64_t chunk = std::min(n, row_chunk_);
  sweep.next_layer = 0;
  sweep.hidden = Matrix(n, config_.hidden_size);
  sweep.normed = Matrix(n, config_.hidden_size);
  sweep.angles = Matrix(n, config_.head_dim);
  attention_.angles(sweep.rows, sweep.angles);
  int64_t pages = 0;
  for (const SweepRow& row : sweep.rows) pages = std::max(pages, row.cache->page_count());
  attention_.reserve(chunk, pages);
  if (mlp_out_.rows() < chunk) {
    gate_ = Matrix(chunk, config_.intermediate_size);
    up_ = Matrix(chunk, config_.intermediate_size);
    mlp_out_ = Matrix(chunk, config_.hidden_size);
  }
  for (int64_t i = 0; i < embeddings.rows; ++i) {
    std::copy_n(embeddings.row(i), embeddings.cols, sweep.hidden.row(i));
  }
}

// h += attention(norm(h)); h += mlp(norm(h)).
bool DenseModel::advance(Sweep& sweep, const CancelToken* cancel, const SweepTrace& trace) {
  if (trace.hidden_states != nullptr && sweep.next_layer == 0) {
    trace.hidden_states->push_back(copy_of(sweep.hidden));
  }
  const DenseLayerWeights& w = weights_->layers[static_cast<size_t>(sweep.next_layer)];
  attention(w, sweep, cancel, trace);
  mlp(w, sweep, cancel);
  ++sweep.next_layer;
  const bool last = sweep.next_layer == config_.num_hidden_layers;
  if (trace.hidden_states != nullptr) {
    Matrix& seen = trace.hidden_states->emplace_back(copy_of(sweep.hidden));
    if (last) rms_norm(*context_, seen, weights_->norm, eps_, seen);
  }
  return !last;
}

template <typename Step>
void DenseModel::in_chunks(const Sweep& sweep, const CancelToken* cancel, const Step& step) const {
  for (int64_t first = 0; first < sweep.size(); first += row_chunk_) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    step(first, std::min(row_chunk_, sweep.size() - first));
  }
}

void DenseModel::attention(const DenseLayerWeights& w, Sweep& sweep, const CancelToken* cancel,
                           const SweepTrace& trace) {
  const PartTimer timer(&times_.attention);
  const int64_t heads = config_.num_attention_heads;
  Span2d<float> probabilities;
  if (trace.attentions != nullptr) {
    probabilities =
        trace.attentions->emplace_back(sweep.size() * heads, sweep.rows[0].cache->length());
  }
  // A row attends to what the chunks before it have cached.
  in_chunks(sweep, cancel, [&](int64_t first, int64_t count) {
    GroupedAttention::Rows r;
    r.rows = std::span(sweep.rows).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    r.angles = sweep.angles.view().middle_rows(first, count);
    r.hidden = sweep.hidden.view().middle_rows(first, count);
    const Span2d<float> normed = sweep.normed.view().middle_rows(first, count);
    rms_norm(*context_, r.hidden, w.input_layernorm, eps_, normed);
    r.normed = normed;
    Span2d<float> part;
    if (trace.attentions != nullptr) {
      part = probabilities.middle_rows(first * heads, count * heads);
      r.probabilities = &part;
    }
    attention_.forward(w, sweep.next_layer, r);
  });
}

void DenseModel::mlp(const DenseLayerWeights& w, Sweep& sweep, const CancelToken* cancel) {
  const PartTimer timer(&times_.mlp);
  in_chunks(sweep, cancel, [&](int64_t first, int64_t count) {
    const Span2d<float> hidden = sweep.hidden.view().middle_rows(first, count);
    const Span2d<float> normed = sweep.normed.view().middle_rows(first, count);
    const Span2d<float> out = mlp_out_.view().middle_rows(0, count);
    rms_norm(*context_, hidden, w.post_attention_layernorm, eps_, normed);
    gated_mlp(*context_, normed, w.mlp, gate_, up_, out);
    add_to(out, hidden);
  });
}

void DenseModel::final_hidden(const Sweep& sweep, Span2d<float> out) const {
  copy_wanting(sweep, out);
  rms_norm(*context_, out, weights_->norm, eps_, out);
}

void DenseModel::head(Span2d<const float> final_hidden, Span2d<float> logits) const {
  const PartTimer timer(&times_.head);
  linear(*context_, final_hidden, weights_->vocabulary.lm_head, logits);
}

}  // namespace fathom
