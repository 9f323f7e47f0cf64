// The gated activation of every MLP.
#pragma once

#include "base/span2d.h"
#include "kernels/context.h"

namespace fathom {

// gate[r][c] = (gate * sigmoid(gate)) * up, where sigmoid is sigmoid_f32 to the bit.
void silu_multiply(const KernelContext& context, Span2d<float> gate, Span2d<const float> up);

}  // namespace fathom
