#if defined(__AVX2__)
#include "kernels/combine/vector_avx2.h"
// The register type comes first.
#include "kernels/norm/tiles.h"

namespace fathom {

const NormKernels norm_avx2 = {row};

}  // namespace fathom
#endif
