// Matrices as `fathom quantize` stores them (docs/quantize.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

// NAME.weight holds the codes, NAME.weight_scale the scales.
inline constexpr std::string_view kPackedScaleSuffix = "_scale";
// The quantization_config's quant_method.
inline constexpr std::string_view kPackedMethod = "fathom";

// A matrix of rows x cols in 8 bits (one F32 scale for each row) or in 4, 3 or 2 bits
// (numerics/group_levels.h, BF16 scales).
struct PackedShape {
  Dtype dtype = Dtype::u8;
  std::vector<int64_t> shape;
  Dtype scale_dtype = Dtype::bf16;
  std::vector<int64_t> scale_shape;
};
PackedShape packed_shape(int bits, int64_t rows, int64_t cols);

// Bits of the codes of a tensor that is so stored; 0 where its dtype and shape are no packed form
// of rows x cols.
int packed_bits(const TensorInfo& tensor, int64_t rows, int64_t cols);

// A row made 8, 4, 3 or 2 bits: its codes, and its scale (F32) or scales (BF16). Values are finite.
void quantise_row(int bits, std::span<const float> values, std::byte* codes, std::byte* scales);

}  // namespace fathom
