// The order of summation written out plainly; every other implementation must give these bits.
#include <cmath>
#include <cstring>

#include "kernels/linear/linear.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"

namespace fathom {
namespace {

template <typename T>
T load(const std::byte* from, int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float weight_at(const WeightView& w, int64_t r, int64_t k) {
  const std::byte* row = w.data + r * w.row_bytes();
  switch (w.format) {
    case WeightFormat::f32:
      return load<float>(row, k);
    case WeightFormat::bf16:
      return bf16_to_float(load<uint16_t>(row, k));
    case WeightFormat::f16:
      return fp16_to_float(load<uint16_t>(row, k));
    case WeightFormat::fp8_block:
      return fp8_e4m3_to_float(load<uint8_t>(row, k)) * 0x1p-8f;
    case WeightFormat::int8_row:
      return static_cast<float>(load<int8_t>(row, k));
    case WeightFormat::int4:
    case WeightFormat::int3:
    case WeightFormat::int2:
      return level_value(row, w.scale + (w.first_row + r) * w.scale_cols * 2, level_bits(w.format),
                         k);
  }
  return 0;
}

float activation_at(const WeightView& w, int64_t r, int64_t k, const float* x) {
  if (w.format != WeightFormat::fp8_block) return x[k];
  const int64_t block = (w.first_row + r) / w.block_rows * w.scale_cols + k / w.block_cols;
  return x[k] * (load<float>(w.scale, block) * 256.0f);
}

float dot(const WeightView& w, int64_t r, const float* x) {
  float lanes[16] = {};
  for (int64_t k = 0; k < (w.cols + 15) / 16 * 16; ++k) {
    const bool inside = k < w.cols;
    const float weight = inside || level_bits(w.format) > 0 ? weight_at(w, r, k) : 0.0f;
    const float activation = inside ? activation_at(w, r, k, x) : 0.0f;
    lanes[k % 16] = std::fma(weight, activation, lanes[k % 16]);
  }
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  if (w.format != WeightFormat::int8_row) return lanes[0];
  return lanes[0] * load<float>(w.scale, w.first_row + r);
}

void run(const LinearPart& part) {
  for (int64_t j = 0; j < part.x.rows; ++j) {
    for (int64_t r = 0; r < part.w.rows; ++r) part.y.row(j)[r] = dot(part.w, r, part.x.row(j));
  }
}

}  // namespace

const LinearKernels linear_reference = {run};

}  // namespace fathom
