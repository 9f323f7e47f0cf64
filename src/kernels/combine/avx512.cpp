#if defined(__AVX512F__)
#include "kernels/combine/vector_avx512.h"
// The register type comes first.
#include "kernels/combine/tiles.h"

namespace fathom {

const CombineKernels combine_avx512 = {decode, update};

}  // namespace fathom
#endif
