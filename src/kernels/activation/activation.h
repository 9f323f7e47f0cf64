// The gated activation of every MLP.
#pragma once

#include "base/span2d.h"
#include "kernels/context.h"

namespace fathom {

// gate[r][c] = (gate * sigmoid(gate)) * up, where sigmoid is sigmoid_f32 to the bit.
void silu_multiply(const KernelContext& context, Span2d<float> gate, Span2d<const float> up);

struct ActivationKernels {
  // gate[i] = (gate[i] * sigmoid(gate[i])) * up[i]
  void (*silu_multiply)(float* gate, const float* up, int64_t count);
};
extern const ActivationKernels activation_reference, activation_avx2, activation_avx512,
    activation_neon;

}  // namespace fathom
