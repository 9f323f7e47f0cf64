#include "kernels/combine/combine.h"

#if defined(__x86_64__)
namespace fathom {
const CombineKernels combine_avx512 = combine_reference;
}  // namespace fathom
#endif
