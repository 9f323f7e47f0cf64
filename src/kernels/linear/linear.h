// y = x W^T, the product in which nearly all time goes.
//
// The canonical order, the same for every implementation:
//   f32, bf16, f16: 16 lanes; element k of a row goes to lane k mod 16, in ascending k, by fused
//     multiply-add of the weight (widened to float, exact) and x[k]; the row is padded with zeros
//     to a multiple of 16; then the tree  s[i] = a[i] + a[i+8] (8), + 4, + 2, + 1.
//   fp8_block: for each block of rows the activation is first scaled, xs[k] = x[k] * (scale * 256)
//     with one rounding (scale * 256 is exact); the weight's byte is taken as value / 256, which is
//     what shifting it into binary16 gives; then as above with xs. Codes 0x7f and 0xff must not
//     occur: loading checks.
//   int8_row: as f32, bf16 and f16 with the byte (widened to float, exact), and the tree's sum is
//     multiplied with the row's scale, one rounding.
//   int4, int3, int2: as f32, bf16 and f16 with level * scale, which is exact; up to the next
//     multiple of 16 columns the row's own padding counts (x is zero there).
// A batch of rows uses this order for each row, so results do not depend on the batch.
#pragma once

#include "base/span2d.h"
#include "kernels/context.h"
#include "kernels/weight_view.h"

namespace fathom {

// y[n, w.rows] = x[n, w.cols] . w^T. x and y must not overlap. n >= 0.
void linear(const KernelContext& context, Span2d<const float> x, const WeightView& w,
            Span2d<float> y);

// The same product on the calling thread alone, for callers that are already parallel over heads or
// experts. `scratch` is one worker's (KernelContext::kScratchBytes, aligned to a cache line).
struct LinearPart {
  Span2d<const float> x;  // [n, w.cols]
  WeightView w;
  Span2d<float> y;  // [n, w.rows]
  std::byte* scratch = nullptr;
};

struct LinearKernels {
  void (*run)(const LinearPart& part);
};

extern const LinearKernels linear_reference;
extern const LinearKernels linear_avx2;
extern const LinearKernels linear_avx512;      // F, BW, DQ, VL
extern const LinearKernels linear_avx512vbmi;  // and VBMI and GFNI: FP8 decoded bytewise
extern const LinearKernels linear_neon;

}  // namespace fathom
