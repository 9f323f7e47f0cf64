// A search for stored values that are no number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/safetensors.h"

namespace fathom {

// Place of the first 0x7f or 0xff. Kernels decode by shifting, which makes a number of them, so
// bytes are checked once when they are loaded; at many GB/s, the read from disk hides it.
std::optional<uint64_t> find_fp8_nan(std::span<const std::byte> codes);

// The first element of `bytes` that is NaN or infinite (FP8 E4M3 has no infinities). A router would
// pass over such a value without a trace in the logits, so none is let in. Formats that are never
// computed with are not looked into.
std::optional<uint64_t> find_not_finite(Dtype dtype, std::span<const std::byte> bytes);

}  // namespace fathom
