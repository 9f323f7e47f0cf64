#include "kernels/attention/attention.h"

#if defined(__x86_64__)
namespace fathom {
const AttentionKernels attention_avx2 = attention_reference;
}  // namespace fathom
#endif
