// Grouped-query attention: several query heads share a cached key and value.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/dense_config.h"
#include "kernels/attention/attention.h"
#include "kernels/context.h"
#include "model/dense/weights.h"
#include "model/rotary.h"
#include "model/sweep.h"

namespace fathom {

// How the cache holds one position of a layer: for each key-value head its value and rotated key.
KvRowLayout dense_kv_row(const DenseConfig& config, KvFormat format);

class GroupedAttention {
 public:
  GroupedAttention(const DenseConfig& config, const KernelContext& context);

  // Grows the scratch to `rows` rows of sequences of at most `pages` pages; the only allocation.
  void reserve(int64_t rows, int64_t pages);

  // cos and sin of every row's position, [rows, head_dim]: the same for all layers.
  void angles(std::span<const SweepRow> rows, Span2d<float> out) const;

  // hidden[i] += attention(normed[i]) for the given rows (of one sweep, sequences together). Caches
  // every row's key and value first. Where `probabilities` is not null (rows of a single sequence),
  // it also receives them: [rows * heads, positions].
  struct Rows {
    std::span<const SweepRow> rows;
    Span2d<const float> angles;
    Span2d<const float> normed;
    Span2d<float> hidden;
    Span2d<float>* probabilities = nullptr;
  };
  void forward(const DenseLayerWeights& w, int64_t layer, const Rows& r);

 private:
  struct Projection {
    const WeightView* weight;
    const float* bias;
    const float* norm;
  };
  // [n, heads * head_dim], with bias; each head normed where there is a norm for it.
  Span2d<float> project(const Projection& p, Span2d<const float> x, Matrix& out);
  void cache_rows(int64_t layer, const Rows& r, Span2d<const float> k, Span2d<const float> v);
  void attend(int64_t layer, const Rows& r, int64_t first, int64_t count);

  DenseConfig config_;
  const KernelContext* context_;
  Rotary rotary_;
  float softmax_scale_;
  int64_t heads_;
  int64_t kv_heads_;
  int64_t dim_;

  Matrix q_;                              // [rows, heads * head_dim]
  Matrix k_;                              // [rows, kv_heads * head_dim]
  Matrix v_;                              // the same
  Matrix rotated_;                        // [rows, heads * head_dim]: queries
  Matrix cached_;                         // [rows, kv_heads * 2 * head_dim]: values and keys
  Matrix values_;                         // [rows, heads * head_dim]: attention's result
  Matrix out_;                            // [rows, hidden]
  std::vector<const std::byte*> blocks_;  // [pages]
  std::vector<int64_t> positions_;        // [rows]
};

}  // namespace fathom
