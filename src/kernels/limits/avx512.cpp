#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/limits/loops.h"

namespace fathom {
namespace {

struct Avx512 {
  typedef float Floats __attribute__((vector_size(64)));
  typedef uint64_t Words __attribute__((vector_size(64)));
  static Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace

const LimitKernels limits_avx512 = Loops<Avx512>::kernels;

}  // namespace fathom

#endif
