#if defined(__aarch64__)
#include "kernels/combine/vector_neon.h"
// The register type comes first.
#include "kernels/combine/tiles.h"

namespace fathom {

const CombineKernels combine_neon = {decode, update};

}  // namespace fathom
#endif
