#if defined(__x86_64__)

#include "kernels/linear/avx512_isa.h"

namespace fathom {

const LinearKernels linear_avx512 = {Blocked<Avx512>::run};

}  // namespace fathom

#endif
