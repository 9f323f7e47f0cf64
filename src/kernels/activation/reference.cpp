#include "kernels/activation/activation.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

void silu_multiply(float* gate, const float* up, int64_t count) {
  for (int64_t i = 0; i < count; ++i) gate[i] = (gate[i] * sigmoid_f32(gate[i])) * up[i];
}

}  // namespace

const ActivationKernels activation_reference = {silu_multiply};

}  // namespace fathom
