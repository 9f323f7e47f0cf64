// RMSNorm.
#pragma once

#include "base/span2d.h"
#include "kernels/context.h"

namespace fathom {

// y[r][c] = (x[r][c] * (1 / sqrt(mean(x[r]^2) + eps))) * weight[c]; the squares are summed in
// linear()'s 16 lanes and tree. weight has x.cols floats. y may be x.
void rms_norm(const KernelContext& context, Span2d<const float> x, const float* weight, float eps,
              Span2d<float> y);

struct NormKernels {
  // One row, as above.
  void (*row)(const float* x, const float* weight, float eps, int64_t cols, float* y);
};
extern const NormKernels norm_reference, norm_avx2, norm_avx512, norm_neon;

}  // namespace fathom
