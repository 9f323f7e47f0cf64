// y (+)= p W: rows of W, weighted and summed. Folding W_UK into a query and summing latents by
// their probabilities are this product.
//
// The canonical order: each output has one accumulator (it begins with y's old value, or with 0)
// and rows are added in ascending order by fused multiply-add, y = fma(p[r], w[r][c], y). For
// fp8_block the factor is p[r] * (scale * 256) with one rounding and the byte counts as value /
// 256; for int8_row it is p[r] * scale with one rounding, and the byte counts as it is. int4, int3
// and int2 are for linear() only.
#pragma once

#include <span>

#include "base/span2d.h"
#include "kernels/context.h"
#include "kernels/weight_view.h"

namespace fathom {

enum class CombineMode { overwrite, accumulate };

// y[n, w.cols] (+)= p[n, w.rows] . w. p and y must not overlap.
void combine(const KernelContext& context, Span2d<const float> p, const WeightView& w,
             Span2d<float> y, CombineMode mode);

// One small product for each of `count` heads, in parallel over heads (and over rows):
// y_h[n, cols] = p_h[n, rows] . w_h. `p`, `w`, `y` give head h's operands.
struct HeadProduct {
  Span2d<const float> p;
  WeightView w;
  Span2d<float> y;
};
// combine() for each; the products are independent.
void combine_heads(const KernelContext& context, std::span<const HeadProduct> heads);
// linear() (order of linear/linear.h) for each: y_h[n, rows] = p_h[n, cols] . w_h^T.
void linear_heads(const KernelContext& context, std::span<const HeadProduct> heads);

// The small product of which combine() and attention are made, over decoded rows. It touches
// nothing outside the given sizes. y[n, cols] = y * factor + p[n, rows] . w[rows, cols], in the
// order above.
struct UpdateTile {
  const float* p = nullptr;  // [n, rows]
  int64_t p_stride = 0;
  const float* w = nullptr;  // [rows, cols]
  int64_t w_stride = 0;
  float* y = nullptr;  // [n, cols]
  int64_t y_stride = 0;
  int64_t n = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  bool accumulate = true;         // false: y begins with 0
  const float* factor = nullptr;  // [n], one multiplication before the sum; null: none
};

struct CombineKernels {
  // `count` stored values as floats; an fp8 byte counts as value / 256, an int8 byte as it is.
  // `from` may lie anywhere.
  void (*decode)(WeightFormat format, const std::byte* from, int64_t count, float* to);
  void (*update)(const UpdateTile& tile);
};
extern const CombineKernels combine_reference, combine_avx2, combine_avx512, combine_neon;

}  // namespace fathom
