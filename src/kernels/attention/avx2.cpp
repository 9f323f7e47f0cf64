#if defined(__AVX2__)
#include "kernels/combine/vector_avx2.h"
// The register type comes first.
#include "kernels/attention/tiles.h"

namespace fathom {

const AttentionKernels attention_avx2 = {load_rows, dots, softmax};

}  // namespace fathom
#endif
