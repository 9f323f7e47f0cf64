#include "kernels/limits/loops.h"

namespace fathom {
namespace {

// Products and sums apart: the plain build has no fused instruction.
struct Reference {
  typedef float Floats __attribute__((vector_size(16)));
  typedef uint64_t Words __attribute__((vector_size(16)));
  static Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
};

}  // namespace

const LimitKernels limits_reference = Loops<Reference>::kernels;

}  // namespace fathom
