#if defined(__AVX2__)
#include "kernels/combine/vector_avx2.h"
// The register type comes first.
#include "kernels/combine/tiles.h"

namespace fathom {

const CombineKernels combine_avx2 = {decode, update};

}  // namespace fathom
#endif
