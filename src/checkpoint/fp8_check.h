// A search for the FP8 E4M3 codes that are no number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace fathom {

// Place of the first 0x7f or 0xff. Kernels decode by shifting, which makes a number of them, so
// bytes are checked once when they are loaded; at many GB/s, the read from disk hides it.
std::optional<uint64_t> find_fp8_nan(std::span<const std::byte> codes);

}  // namespace fathom
