#include "numerics/int8_row.h"

#include <algorithm>
#include <cmath>

namespace fathom {

float quantise_int8_row(const float* values, int64_t count, std::byte* to) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  const float scale = largest / 127.0f;
  if (scale == 0.0f) {
    std::fill_n(to, count, std::byte{0});
    return 0;
  }
  constexpr float kRoundMagic = 0x1.8p+23f;  // adding it rounds to the nearest even integer
  for (int64_t i = 0; i < count; ++i) {
    // Denormal scales are coarse: a quotient may lie beyond 127.
    const float q = std::clamp(values[i] / scale, -127.0f, 127.0f);
    to[i] = static_cast<std::byte>(static_cast<int8_t>((q + kRoundMagic) - kRoundMagic));
  }
  return scale;
}

void widen_int8_row(const std::byte* from, float scale, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(static_cast<int8_t>(from[i])) * scale;
  }
}

}  // namespace fathom
