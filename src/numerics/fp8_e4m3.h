// FP8 E4M3 (fn): 1 sign bit, 4 exponent bits (bias 7), 3 mantissa bits; no infinities; 0x7f and
// 0xff are NaN; the largest finite value is 448; exponent 0 is subnormal, m * 2^-9.
#pragma once

#include <cstdint>

namespace fathom {

float fp8_e4m3_to_float(uint8_t code);  // exact; NaN for 0x7f and 0xff
// Nearest even; values beyond +-448 (infinities too) saturate, NaN becomes 0x7f.
uint8_t float_to_fp8_e4m3(float value);
constexpr bool fp8_e4m3_is_nan(uint8_t code) { return (code & 0x7f) == 0x7f; }

}  // namespace fathom
