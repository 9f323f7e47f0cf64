#if defined(__aarch64__)
#include "kernels/combine/vector_neon.h"
// The register type comes first.
#include "kernels/norm/tiles.h"

namespace fathom {

const NormKernels norm_neon = {row};

}  // namespace fathom
#endif
