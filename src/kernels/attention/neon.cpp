#if defined(__aarch64__)
#include "kernels/combine/vector_neon.h"
// The register type comes first.
#include "kernels/attention/tiles.h"

namespace fathom {

const AttentionKernels attention_neon = {load_rows, dots, softmax};

}  // namespace fathom
#endif
