// How the latent cache stores a position.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention/attention.h"
#include "numerics/half.h"

namespace fathom {
namespace {

// values / scale rounded to bytes; returns the scale (0 for an all-zero part, NaN where a value is
// not a number, so that the fault shows in whatever reads the row).
float quantize(const float* values, int64_t count, std::byte* to) {
  float absmax = 0.0f;
  bool number = true;
  for (int64_t i = 0; i < count; ++i) {
    const float a = std::fabs(values[i]);
    if (a > absmax) absmax = a;
    number = number && a == a;
  }
  const float scale = absmax / 127.0f;
  constexpr float kRoundMagic = 0x1.8p+23f;  // adding it rounds to the nearest even integer
  for (int64_t i = 0; i < count; ++i) {
    float q = scale > 0.0f ? values[i] / scale : 0.0f;
    q = q > -127.0f ? q : -127.0f;  // NaN too, lest the conversion be undefined
    q = q < 127.0f ? q : 127.0f;
    to[i] = static_cast<std::byte>(static_cast<int8_t>((q + kRoundMagic) - kRoundMagic));
  }
  return number ? scale : std::numeric_limits<float>::quiet_NaN();
}

float load_float(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

void store_kv_row(const KvRowLayout& layout, const float* values, std::byte* to) {
  const int64_t width = layout.width();
  switch (layout.format) {
    case KvFormat::f32:
      std::memcpy(to, values, static_cast<size_t>(width) * sizeof(float));
      break;
    case KvFormat::bf16:
      for (int64_t i = 0; i < width; ++i) {
        const uint16_t bits = float_to_bf16(values[i]);
        std::memcpy(to + 2 * i, &bits, sizeof bits);
      }
      break;
    case KvFormat::int8: {
      const float scales[2] = {
          quantize(values, layout.latent, to + 8),
          quantize(values + layout.latent, layout.rope, to + 8 + layout.latent)};
      std::memcpy(to, scales, sizeof scales);
      break;
    }
  }
}

void load_kv_row(const KvRowLayout& layout, const std::byte* from, float* values) {
  const int64_t width = layout.width();
  switch (layout.format) {
    case KvFormat::f32:
      std::memcpy(values, from, static_cast<size_t>(width) * sizeof(float));
      break;
    case KvFormat::bf16:
      for (int64_t i = 0; i < width; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + 2 * i, sizeof bits);
        values[i] = bf16_to_float(bits);
      }
      break;
    case KvFormat::int8: {
      const float latent_scale = load_float(from);
      const float rope_scale = load_float(from + 4);
      for (int64_t i = 0; i < width; ++i) {
        const float q = static_cast<float>(static_cast<int8_t>(from[8 + i]));
        values[i] = q * (i < layout.latent ? latent_scale : rope_scale);
      }
      break;
    }
  }
}

}  // namespace fathom
