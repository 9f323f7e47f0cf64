#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/limits/loops.h"

namespace fathom {
namespace {

struct Neon {
  typedef float Floats __attribute__((vector_size(16)));
  typedef uint64_t Words __attribute__((vector_size(16)));
  static Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
  }
};

}  // namespace

const LimitKernels limits_neon = Loops<Neon>::kernels;

}  // namespace fathom

#endif
