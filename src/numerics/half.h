// The two 16-bit formats, converted by integer arithmetic so that every machine gives the same
// bits.
#pragma once

#include <bit>
#include <cstdint>

namespace fathom {

// bfloat16: the upper half of a float.
constexpr float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
// Nearest even; denormals are kept, NaN stays a quiet NaN.
constexpr uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float fp16_to_float(uint16_t bits);   // IEEE binary16, exact
uint16_t float_to_fp16(float value);  // nearest even, overflow to infinity

}  // namespace fathom
