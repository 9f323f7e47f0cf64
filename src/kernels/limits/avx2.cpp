#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/limits/loops.h"

namespace fathom {
namespace {

struct Avx2 {
  typedef float Floats __attribute__((vector_size(32)));
  typedef uint64_t Words __attribute__((vector_size(32)));
  static Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
};

}  // namespace

const LimitKernels limits_avx2 = Loops<Avx2>::kernels;

}  // namespace fathom

#endif
