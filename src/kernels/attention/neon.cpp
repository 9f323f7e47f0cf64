#include "kernels/attention/attention.h"

#if defined(__aarch64__)
namespace fathom {
const AttentionKernels attention_neon = attention_reference;
}  // namespace fathom
#endif
