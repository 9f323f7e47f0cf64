#if defined(__x86_64__)

#include "kernels/linear/avx512_isa.h"

namespace fathom {
namespace {

struct Avx512Vbmi : Avx512 {};

}  // namespace

const LinearKernels linear_avx512vbmi = {Blocked<Avx512Vbmi>::run};

}  // namespace fathom

#endif
