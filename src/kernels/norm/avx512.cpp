#if defined(__AVX512F__)
#include "kernels/combine/vector_avx512.h"
// The register type comes first.
#include "kernels/norm/tiles.h"

namespace fathom {

const NormKernels norm_avx512 = {row};

}  // namespace fathom
#endif
