#include "kernels/activation/activation.h"

#if defined(__x86_64__)
namespace fathom {
const ActivationKernels activation_avx2 = activation_reference;
}  // namespace fathom
#endif
