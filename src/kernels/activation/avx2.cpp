#if defined(__AVX2__)
#include "kernels/combine/vector_avx2.h"
// The register type comes first.
#include "kernels/activation/tiles.h"

namespace fathom {

const ActivationKernels activation_avx2 = {silu_multiply};

}  // namespace fathom
#endif
