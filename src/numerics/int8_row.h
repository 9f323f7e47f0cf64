// A row of weights in 8 bits: signed bytes and one scale.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom {

// scale = max |value| / 127; each byte is value / scale, rounded to the nearest even integer and
// clamped to +-127. A row of zeros has scale 0 and bytes 0 (so has one whose scale would
// underflow). Values must be finite. Returns the scale.
float quantise_int8_row(const float* values, int64_t count, std::byte* to);

// byte * scale, one rounding.
void widen_int8_row(const std::byte* from, float scale, int64_t count, float* to);

}  // namespace fathom
