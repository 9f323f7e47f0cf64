#include "kernels/norm/norm.h"

#if defined(__x86_64__)
namespace fathom {
const NormKernels norm_avx512 = norm_reference;
}  // namespace fathom
#endif
