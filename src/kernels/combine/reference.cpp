#include <cmath>
#include <cstring>

#include "kernels/combine/combine.h"
#include "numerics/half.h"

namespace fathom {
namespace {

uint16_t load_u16(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

void decode(WeightFormat format, const std::byte* from, int64_t count, float* to) {
  switch (format) {
    case WeightFormat::f32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      break;
    case WeightFormat::bf16:
      for (int64_t i = 0; i < count; ++i) to[i] = bf16_to_float(load_u16(from + 2 * i));
      break;
    case WeightFormat::f16:
      for (int64_t i = 0; i < count; ++i) to[i] = fp16_to_float(load_u16(from + 2 * i));
      break;
    case WeightFormat::fp8_block:
      // Sign, exponent and mantissa moved to their places in binary16, whose bias is larger by 8.
      for (int64_t i = 0; i < count; ++i) {
        const uint32_t code = static_cast<uint32_t>(from[i]);
        const uint32_t half = (code & 0x80u) << 8 | (code & 0x7fu) << 7;
        to[i] = fp16_to_float(static_cast<uint16_t>(half));
      }
      break;
    case WeightFormat::int8_row:
      for (int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<float>(static_cast<int8_t>(from[i]));
      }
      break;
    case WeightFormat::int4:
    case WeightFormat::int3:
    case WeightFormat::int2:
      break;  // never asked for
  }
}

void update(const UpdateTile& t) {
  for (int64_t i = 0; i < t.n; ++i) {
    for (int64_t c = 0; c < t.cols; ++c) {
      float y = t.accumulate ? t.y[i * t.y_stride + c] : 0.0f;
      if (t.factor != nullptr) y *= t.factor[i];
      for (int64_t r = 0; r < t.rows; ++r) {
        y = std::fma(t.p[i * t.p_stride + r], t.w[r * t.w_stride + c], y);
      }
      t.y[i * t.y_stride + c] = y;
    }
  }
}

}  // namespace

const CombineKernels combine_reference = {decode, update};

}  // namespace fathom
