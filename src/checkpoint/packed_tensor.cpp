#include "checkpoint/packed_tensor.h"

#include <cstring>

#include "numerics/group_levels.h"
#include "numerics/int8_row.h"

namespace fathom {

PackedShape packed_shape(int bits, int64_t rows, int64_t cols) {
  if (bits == 8) return {Dtype::i8, {rows, cols}, Dtype::f32, {rows}};
  return {
      Dtype::u8, {rows, level_row_bytes(cols, bits)}, Dtype::bf16, {rows, level_row_scales(cols)}};
}

int packed_bits(const TensorInfo& tensor, int64_t rows, int64_t cols) {
  for (const int bits : {8, 4, 3, 2}) {
    const PackedShape packed = packed_shape(bits, rows, cols);
    if (tensor.dtype == packed.dtype && tensor.shape == packed.shape) return bits;
  }
  return 0;
}

void quantise_row(int bits, std::span<const float> values, std::byte* codes, std::byte* scales) {
  const auto count = static_cast<int64_t>(values.size());
  if (bits < 8) return quantise_levels_row(values.data(), count, bits, codes, scales);
  const float scale = quantise_int8_row(values.data(), count, codes);
  std::memcpy(scales, &scale, sizeof scale);
}

}  // namespace fathom
