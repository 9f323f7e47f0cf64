#include "checkpoint/fp8_check.h"

#include <algorithm>
#include <cstring>

#include "numerics/fp8_e4m3.h"

namespace fathom {
namespace {

// Blocks without an early way out, which compilers turn into vector instructions.
constexpr size_t kBlock = 4096;

// NaN and the infinities are the values whose exponent is all ones. Bytes need not be aligned.
template <typename Bits>
std::optional<uint64_t> find_full_exponent(std::span<const std::byte> bytes, Bits exponent) {
  const std::byte* const at = bytes.data();
  const size_t count = bytes.size() / sizeof(Bits);
  const auto is_full = [at, exponent](size_t i) {
    Bits value;
    std::memcpy(&value, at + i * sizeof value, sizeof value);
    return static_cast<Bits>(value & exponent) == exponent;
  };
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, count);
    unsigned found = 0;
    for (size_t i = begin; i < end; ++i) found |= static_cast<unsigned>(is_full(i));
    if (!found) continue;
    for (size_t i = begin; i < end; ++i) {
      if (is_full(i)) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> find_fp8_nan(std::span<const std::byte> codes) {
  const auto* at = reinterpret_cast<const uint8_t*>(codes.data());
  const size_t size = codes.size();
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

std::optional<uint64_t> find_not_finite(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::f8_e4m3:
      return find_fp8_nan(bytes);
    case Dtype::bf16:
      return find_full_exponent<uint16_t>(bytes, 0x7f80);
    case Dtype::f16:
      return find_full_exponent<uint16_t>(bytes, 0x7c00);
    case Dtype::f32:
      return find_full_exponent<uint32_t>(bytes, 0x7f800000);
    default:
      return std::nullopt;
  }
}

}  // namespace fathom
