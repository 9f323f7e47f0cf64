// y (+)= p W: rows of W, weighted and summed. Folding W_UK into a query and summing latents by
// their probabilities are this product.
//
// The canonical order: each output has one accumulator (it begins with y's old value, or with 0) and
// rows are added in ascending order by fused multiply-add, y = fma(p[r], w[r][c], y). For fp8_block
// the factor is p[r] * (scale * 256) with one rounding and the byte counts as value / 256.
#pragma once

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

}  // namespace fathom
