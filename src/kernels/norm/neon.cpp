#include "kernels/norm/norm.h"

#if defined(__aarch64__)
namespace fathom {
const NormKernels norm_neon = norm_reference;
}  // namespace fathom
#endif
