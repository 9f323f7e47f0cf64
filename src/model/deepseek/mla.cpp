#include "model/deepseek/mla.h"

#include <algorithm>
#include <cstring>

#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"
#include "model/decoder.h"

namespace fathom {
namespace {

// The reference's class default for q_a_layernorm and kv_a_layernorm, whatever rms_norm_eps says.
constexpr float kLatentNormEps = 1e-6f;

}  // namespace

Mla::Mla(const DeepseekConfig& config, const KernelContext& context)
    : config_(config),
      context_(&context),
      rope_(config),
      heads_(config.num_attention_heads),
      latent_(config.kv_lora_rank),
      rope_dim_(config.qk_rope_head_dim),
      nope_(config.qk_nope_head_dim),
      value_(config.v_head_dim) {}

void Mla::reserve(int64_t rows, int64_t pages) {
  if (static_cast<int64_t>(blocks_.size()) < pages) blocks_.resize(static_cast<size_t>(pages));
  if (q_.rows() >= rows) return;
  q_a_ = Matrix(rows, config_.q_lora_rank.value_or(0));
  q_ = Matrix(rows, heads_ * config_.qk_head_dim());
  kv_ = Matrix(rows, latent_ + rope_dim_);
  cache_row_ = Matrix(rows, latent_ + rope_dim_);
  angles_ = Matrix(rows, rope_dim_);
  absorbed_ = Matrix(rows * heads_, latent_ + rope_dim_);
  summed_ = Matrix(rows * heads_, latent_);
  values_ = Matrix(rows, heads_ * value_);
  out_ = Matrix(rows, config_.hidden_size);
  products_.resize(static_cast<size_t>(heads_));
  positions_.resize(static_cast<size_t>(rows));
}

void Mla::forward(const AttentionWeights& w, int64_t layer, std::span<const SweepRow> rows,
                  Span2d<const float> normed, Span2d<float> hidden, Span2d<float>* probabilities) {
  const int64_t n = normed.rows;
  for (int64_t i = 0; i < n; ++i) {
    const SweepRow& row = rows[static_cast<size_t>(i)];
    rope_.angles(row.position, row.cache->length(), angles_.row(i));
  }
  const Span2d<float> q = queries(w, normed);
  cache_rows(w, layer, rows, normed);
  absorb_queries(w, q);

  // Rows of one sequence attend together.
  for (int64_t first = 0; first < n;) {
    int64_t end = first + 1;
    while (end < n &&
           rows[static_cast<size_t>(end)].cache == rows[static_cast<size_t>(first)].cache) {
      ++end;
    }
    attend(layer, rows.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)), first,
           probabilities);
    first = end;
  }

  // W_UV: each head's value rows stand after its key rows in kv_b_proj.
  for (int64_t h = 0; h < heads_; ++h) {
    const Span2d<float> summed(summed_.row(h), n, latent_, heads_ * latent_);
    products_[static_cast<size_t>(h)] = {
        summed, w.kv_b_proj.middle_rows(h * (nope_ + value_) + nope_, value_),
        values_.view().middle_rows(0, n).middle_cols(h * value_, value_)};
  }
  linear_heads(*context_, products_);

  const Span2d<float> out = out_.view().middle_rows(0, n);
  linear(*context_, values_.view().middle_rows(0, n), w.o_proj, out);
  if (w.o_bias != nullptr) add_bias(w.o_bias, out);
  add_to(out, hidden);
}

Span2d<float> Mla::queries(const AttentionWeights& w, Span2d<const float> normed) {
  const Span2d<float> q = q_.view().middle_rows(0, normed.rows);
  if (!w.q_proj.empty()) {
    linear(*context_, normed, w.q_proj, q);
    return q;
  }
  const Span2d<float> q_a = q_a_.view().middle_rows(0, normed.rows);
  linear(*context_, normed, w.q_a_proj, q_a);
  if (w.q_a_bias != nullptr) add_bias(w.q_a_bias, q_a);
  rms_norm(*context_, q_a, w.q_a_layernorm, kLatentNormEps, q_a);
  linear(*context_, q_a, w.q_b_proj, q);
  return q;
}

void Mla::cache_rows(const AttentionWeights& w, int64_t layer, std::span<const SweepRow> rows,
                     Span2d<const float> normed) {
  const int64_t n = normed.rows;
  const Span2d<float> kv = kv_.view().middle_rows(0, n);
  linear(*context_, normed, w.kv_a_proj_with_mqa, kv);
  if (w.kv_a_bias != nullptr) add_bias(w.kv_a_bias, kv);
  rms_norm(*context_, kv.middle_cols(0, latent_), w.kv_a_layernorm, kLatentNormEps,
           cache_row_.view().middle_rows(0, n).middle_cols(0, latent_));
  for (int64_t i = 0; i < n; ++i) {
    rope_.rotate(angles_.row(i), kv.row(i) + latent_, cache_row_.row(i) + latent_);
    const SweepRow& row = rows[static_cast<size_t>(i)];
    store_kv_row(row.cache->layout().row, cache_row_.row(i), row.cache->row(layer, row.index));
  }
}

// Per head: W_UK folds the nope part into kv_lora_rank values, the rope part is rotated; together
// they are what one cached row is multiplied with.
void Mla::absorb_queries(const AttentionWeights& w, Span2d<const float> q) {
  const int64_t n = q.rows;
  const int64_t width = latent_ + rope_dim_;
  for (int64_t h = 0; h < heads_; ++h) {
    const Span2d<const float> nope = q.middle_cols(h * (nope_ + rope_dim_), nope_);
    const Span2d<float> absorbed(absorbed_.row(h), n, latent_, heads_ * width);
    products_[static_cast<size_t>(h)] = {nope, w.kv_b_proj.middle_rows(h * (nope_ + value_), nope_),
                                         absorbed};
  }
  combine_heads(*context_, products_);
  context_->pool().parallel_for(n, [&](int64_t i, int) {
    for (int64_t h = 0; h < heads_; ++h) {
      rope_.rotate(angles_.row(i), q.row(i) + h * (nope_ + rope_dim_) + nope_,
                   absorbed_.row(i * heads_ + h) + latent_);
    }
  });
}

void Mla::attend(int64_t layer, std::span<const SweepRow> rows, int64_t first,
                 Span2d<float>* probabilities) {
  const auto n = static_cast<int64_t>(rows.size());
  const KvSequence& cache = *rows[0].cache;
  cache.block_pointers(layer, blocks_);
  for (int64_t i = 0; i < n; ++i) {
    positions_[static_cast<size_t>(i)] = rows[static_cast<size_t>(i)].index;
  }
  LatentAttention a;
  a.layout = cache.layout().row;
  a.softmax_scale = static_cast<float>(rope_.softmax_scale());
  a.heads = heads_;
  a.q = absorbed_.view().middle_rows(first * heads_, n * heads_);
  a.positions = std::span(positions_).first(static_cast<size_t>(n));
  a.blocks = std::span(blocks_).first(static_cast<size_t>(cache.page_count()));
  a.out = summed_.view().middle_rows(first * heads_, n * heads_);
  latent_attention(*context_, a);
  if (probabilities != nullptr) {
    attention_probabilities(*context_, a, probabilities->middle_rows(first * heads_, n * heads_));
  }
}

}  // namespace fathom
