// A weight matrix as it lies in memory: the format of the checkpoint, decoded only in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/group_levels.h"

namespace fathom {

enum class WeightFormat : uint8_t {
  f32,
  bf16,
  f16,
  fp8_block,  // FP8 E4M3 bytes; value = decode(byte) * scale[r / block_rows][c / block_cols]
  int8_row,   // signed bytes, made at load (numerics/int8_row.h); value = byte * scale[r]
  int4,       // codes of 4, 3 or 2 bits in blocks of 128 columns (numerics/group_levels.h), and two
  int3,       // BF16 scales for each block of each row; exact as floats
  int2,
};

// Bits of a code of int4, int3 and int2; 0 for formats whose elements are whole bytes.
constexpr int level_bits(WeightFormat format) {
  switch (format) {
    case WeightFormat::int4:
      return 4;
    case WeightFormat::int3:
      return 3;
    case WeightFormat::int2:
      return 2;
    default:
      return 0;
  }
}

// rows x cols, row-major, rows contiguous. Neither pointer need be aligned. A view of some rows of
// a larger matrix keeps the grid of the whole and says in first_row where it begins, because rows
// of one head need not begin on a block.
struct WeightView {
  WeightFormat format = WeightFormat::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;
  // Grid of the whole matrix, row-major, scale_cols wide: F32 for fp8_block and int8_row, BF16 for
  // int4, int3 and int2.
  const std::byte* scale = nullptr;
  int64_t scale_cols = 0;  // ceil(cols / block_cols); of int4, int3, int2 always even
  int64_t block_rows = 128;
  int64_t block_cols = 128;
  int64_t first_row = 0;  // row of the whole matrix at which this view begins

  // int8_row's grid: one number for each row.
  static WeightView int8_rows(int64_t rows, int64_t cols, const std::byte* data,
                              const std::byte* scale) {
    return {WeightFormat::int8_row, rows, cols, data, scale, 1, 1, cols, 0};
  }

  static WeightView levels(WeightFormat format, int64_t rows, int64_t cols, const std::byte* data,
                           const std::byte* scale) {
    return {format, rows, cols, data, scale, level_row_scales(cols), 1, kLevelGroup, 0};
  }

  bool empty() const { return data == nullptr; }
  bool has_scales() const {
    return format == WeightFormat::fp8_block || format == WeightFormat::int8_row ||
           level_bits(format) > 0;
  }
  // Of formats whose elements are whole bytes.
  static constexpr int64_t element_bytes(WeightFormat format) {
    switch (format) {
      case WeightFormat::f32:
        return 4;
      case WeightFormat::bf16:
      case WeightFormat::f16:
        return 2;
      case WeightFormat::fp8_block:
      case WeightFormat::int8_row:
        return 1;
      case WeightFormat::int4:
      case WeightFormat::int3:
      case WeightFormat::int2:
        break;
    }
    return 0;
  }
  int64_t row_bytes() const {
    const int bits = level_bits(format);
    return bits > 0 ? level_row_bytes(cols, bits) : cols * element_bytes(format);
  }
  // Of the scales of one row where they are the row's own (int8_row, int4, int3, int2), else 0.
  int64_t row_scale_bytes() const {
    if (format == WeightFormat::int8_row) return 4;
    return level_bits(format) > 0 ? 2 * level_row_scales(cols) : 0;
  }
  WeightView middle_rows(int64_t first, int64_t count) const {
    WeightView part = *this;
    part.rows = count;
    part.data = data + first * row_bytes();
    part.first_row = first_row + first;
    return part;
  }
};

}  // namespace fathom
