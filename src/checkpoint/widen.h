// Stored values to float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/safetensors.h"

namespace fathom {

// `count` values of F32, BF16 or F16; Error(input) for other dtypes.
void widen(Dtype dtype, const std::byte* from, int64_t count, float* to);

}  // namespace fathom
