#include "checkpoint/widen.h"

#include <cstring>

#include "base/error.h"
#include "numerics/half.h"

namespace fathom {

void widen(Dtype dtype, const std::byte* from, int64_t count, float* to) {
  if (dtype == Dtype::f32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  if (dtype != Dtype::bf16 && dtype != Dtype::f16) {
    fail_input("dtype {} cannot be widened", dtype_name(dtype));
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = dtype == Dtype::bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
  }
}

}  // namespace fathom
