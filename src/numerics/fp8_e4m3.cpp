#include "numerics/fp8_e4m3.h"

#include <bit>

namespace fathom {

float fp8_e4m3_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude < 8u) {  // subnormal, and zero
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + ((127u - 7u) << 23)));
}

uint8_t float_to_fp8_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= std::bit_cast<uint32_t>(448.0f)) return static_cast<uint8_t>(sign | 0x7eu);
  if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {
    // Adding 2^14 leaves steps of 2^-9 in the mantissa: the addition itself rounds to nearest even.
    const float sum = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign |
                                (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0x1p14f)));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - ((127u - 7u) << 3)));
}

}  // namespace fathom
