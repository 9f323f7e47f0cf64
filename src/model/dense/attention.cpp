#include "model/dense/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"
#include "model/decoder.h"

namespace fathom {
namespace {

RotaryOptions rotary_of(const DenseConfig& config) {
  RotaryOptions options;
  options.dim = config.head_dim;
  options.theta = config.rope_theta;
  options.scaling = config.rope_scaling;
  options.max_position_embeddings = config.max_position_embeddings;
  options.cos_sin_scale = config.rope_attention_factor;
  return options;
}

// The matrix [n, heads * head_dim] as [n * heads, head_dim].
Span2d<float> by_heads(Span2d<float> x, int64_t head_dim) {
  return {x.row(0), x.rows * (x.cols / head_dim), head_dim, head_dim};
}

}  // namespace

KvRowLayout dense_kv_row(const DenseConfig& config, KvFormat format) {
  return {format, config.head_dim, config.head_dim, config.num_key_value_heads};
}

GroupedAttention::GroupedAttention(const DenseConfig& config, const KernelContext& context)
    : config_(config),
      context_(&context),
      rotary_(rotary_of(config)),
      softmax_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))),
      heads_(config.num_attention_heads),
      kv_heads_(config.num_key_value_heads),
      dim_(config.head_dim) {}

void GroupedAttention::reserve(int64_t rows, int64_t pages) {
  if (static_cast<int64_t>(blocks_.size()) < pages) blocks_.resize(static_cast<size_t>(pages));
  if (q_.rows() >= rows) return;
  q_ = Matrix(rows, heads_ * dim_);
  k_ = Matrix(rows, kv_heads_ * dim_);
  v_ = Matrix(rows, kv_heads_ * dim_);
  rotated_ = Matrix(rows, heads_ * dim_);
  cached_ = Matrix(rows, kv_heads_ * 2 * dim_);
  values_ = Matrix(rows, heads_ * dim_);
  out_ = Matrix(rows, config_.hidden_size);
  positions_.resize(static_cast<size_t>(rows));
}

void GroupedAttention::angles(std::span<const SweepRow> rows, Span2d<float> out) const {
  context_->pool().parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const SweepRow& row = rows[static_cast<size_t>(i)];
    rotary_.angles(row.position, row.cache->length(), out.row(i));
  });
}

void GroupedAttention::forward(const DenseLayerWeights& w, int64_t layer, const Rows& r) {
  const int64_t n = r.normed.rows;
  const Span2d<float> q = project({&w.q_proj, w.q_bias, w.q_norm}, r.normed, q_);
  const Span2d<float> k = project({&w.k_proj, w.k_bias, w.k_norm}, r.normed, k_);
  const Span2d<float> v = project({&w.v_proj, w.v_bias, nullptr}, r.normed, v_);
  cache_rows(layer, r, k, v);
  context_->pool().parallel_for(n, [&](int64_t i, int) {
    for (int64_t h = 0; h < heads_; ++h) {
      rotate_halves(r.angles.row(i), dim_, q.row(i) + h * dim_, rotated_.row(i) + h * dim_);
    }
  });

  // Every sequence attends to its own cache.
  for (int64_t first = 0; first < n;) {
    int64_t end = first;
    while (end < n &&
           r.rows[static_cast<size_t>(end)].cache == r.rows[static_cast<size_t>(first)].cache) {
      ++end;
    }
    attend(layer, r, first, end - first);
    first = end;
  }

  const Span2d<float> out = out_.view().middle_rows(0, n);
  linear(*context_, values_.view().middle_rows(0, n), w.o_proj, out);
  if (w.o_bias != nullptr) add_bias(w.o_bias, out);
  add_to(out, r.hidden);
}

Span2d<float> GroupedAttention::project(const Projection& p, Span2d<const float> x, Matrix& out) {
  const Span2d<float> y = out.view().middle_rows(0, x.rows);
  linear(*context_, x, *p.weight, y);
  if (p.bias != nullptr) add_bias(p.bias, y);
  if (p.norm != nullptr) {
    const Span2d<float> heads = by_heads(y, dim_);
    rms_norm(*context_, heads, p.norm, static_cast<float>(config_.rms_norm_eps), heads);
  }
  return y;
}

void GroupedAttention::cache_rows(int64_t layer, const Rows& r, Span2d<const float> k,
                                  Span2d<const float> v) {
  context_->pool().parallel_for(k.rows, [&](int64_t i, int) {
    const SweepRow& row = r.rows[static_cast<size_t>(i)];
    const KvRowLayout& layout = row.cache->layout().row;
    std::byte* to = row.cache->row(layer, row.index);
    for (int64_t h = 0; h < kv_heads_; ++h) {
      float* pair = cached_.row(i) + h * 2 * dim_;
      std::copy_n(v.row(i) + h * dim_, dim_, pair);
      rotate_halves(r.angles.row(i), dim_, k.row(i) + h * dim_, pair + dim_);
      store_kv_row(layout, pair, to + h * layout.head_bytes());
    }
  });
}

void GroupedAttention::attend(int64_t layer, const Rows& r, int64_t first, int64_t count) {
  const auto rows = r.rows.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
  const KvSequence& cache = *rows[0].cache;
  cache.block_pointers(layer, blocks_);
  for (int64_t i = 0; i < count; ++i) {
    positions_[static_cast<size_t>(i)] = rows[static_cast<size_t>(i)].index;
  }
  LatentAttention a;
  a.layout = cache.layout().row;
  a.keys_apart = true;
  a.softmax_scale = softmax_scale_;
  a.heads = heads_;
  a.q = by_heads(rotated_.view().middle_rows(first, count), dim_);
  a.positions = std::span(positions_).first(static_cast<size_t>(count));
  a.blocks = std::span(blocks_).first(static_cast<size_t>(cache.page_count()));
  a.out = by_heads(values_.view().middle_rows(first, count), dim_);
  latent_attention(*context_, a);
  if (r.probabilities != nullptr) {
    attention_probabilities(*context_, a,
                            r.probabilities->middle_rows(first * heads_, count * heads_));
  }
}

}  // namespace fathom
