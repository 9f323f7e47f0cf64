#if defined(__aarch64__)
#include "kernels/combine/vector_neon.h"
// The register type comes first.
#include "kernels/activation/tiles.h"

namespace fathom {

const ActivationKernels activation_neon = {silu_multiply};

}  // namespace fathom
#endif
