#include "kernels/activation/activation.h"

#if defined(__aarch64__)
namespace fathom {
const ActivationKernels activation_neon = activation_reference;
}  // namespace fathom
#endif
