#include "checkpoint/fp8_check.h"

#include <algorithm>

#include "numerics/fp8_e4m3.h"

namespace fathom {

std::optional<uint64_t> find_fp8_nan(std::span<const std::byte> codes) {
  const auto* at = reinterpret_cast<const uint8_t*>(codes.data());
  const size_t size = codes.size();
  // Blocks without an early way out, which compilers turn into vector instructions.
  constexpr size_t kBlock = 4096;
  for (size_t begin = 0; begin < size; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, size);
    uint8_t found = 0;
    for (size_t i = begin; i < end; ++i) {
      found |= static_cast<uint8_t>(static_cast<uint8_t>(at[i] << 1) == 0xfe);
    }
    if (!found) continue;
    return static_cast<uint64_t>(
        std::find_if(at + begin, at + end, [](uint8_t code) { return fp8_e4m3_is_nan(code); }) -
        at);
  }
  return std::nullopt;
}

}  // namespace fathom
