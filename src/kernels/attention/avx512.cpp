#if defined(__AVX512F__)
#include "kernels/combine/vector_avx512.h"
// The register type comes first.
#include "kernels/attention/tiles.h"

namespace fathom {

const AttentionKernels attention_avx512 = {load_rows, dots, softmax};

}  // namespace fathom
#endif
