#if defined(__AVX512F__)
#include "kernels/combine/vector_avx512.h"
// The register type comes first.
#include "kernels/activation/tiles.h"

namespace fathom {

const ActivationKernels activation_avx512 = {silu_multiply};

}  // namespace fathom
#endif
