#include "kernels/combine/combine.h"

#if defined(__aarch64__)
namespace fathom {
const CombineKernels combine_neon = combine_reference;
}  // namespace fathom
#endif
