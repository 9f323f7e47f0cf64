// Weights in 4, 3 or 2 bits: groups of 64 neighbours of a row share a scale, and each code names
// one of a few levels, which lie as weights do (closer near zero) instead of evenly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom {

// Value of a code = level * scale, exact in float: a level has 7 bits, a scale (BF16) has 8. The
// highest bit of a code is the sign, the others count magnitudes upwards.
//
// A row is a sequence of blocks of 128 columns, zero codes at its end where columns are missing. A
// block has 16 lanes of `bits` bytes each, a little-endian number: column 16 j + i of the block has
// bits [bits * j, bits * (j + 1)) of lane i. So one load gives 16 neighbours after each shift.
// Each block has two scales.
constexpr int64_t kLevelGroup = 64;
constexpr int64_t kLevelBlock = 128;
constexpr int64_t level_blocks(int64_t cols) { return (cols + kLevelBlock - 1) / kLevelBlock; }
constexpr int64_t level_row_bytes(int64_t cols, int bits) { return level_blocks(cols) * 16 * bits; }
constexpr int64_t level_row_scales(int64_t cols) { return level_blocks(cols) * 2; }

// Magnitudes ascending, 1 << (bits - 1) of them, 127 the last. They make the least squared error
// for groups of 64 normally distributed weights, each group with its best scale.
template <int kBits>
struct LevelTable;
template <>
struct LevelTable<4> {
  static constexpr uint8_t kMagnitudes[8] = {6, 18, 30, 44, 58, 75, 96, 127};
};
template <>
struct LevelTable<3> {
  static constexpr uint8_t kMagnitudes[4] = {14, 42, 77, 127};
};
template <>
struct LevelTable<2> {
  static constexpr uint8_t kMagnitudes[2] = {38, 127};
};

// Level of a code, between -127 and 127.
int level_of(int bits, uint32_t code);

// A row of finite values to level_row_bytes(count, bits) bytes and level_row_scales(count) BF16
// scales. Deterministic: of a few first guesses, each refined twice by least squares, the scale
// with the least squared error (the first of equals), after rounding to BF16. A group of zeros has
// scale 0.
void quantise_levels_row(const float* values, int64_t count, int bits, std::byte* codes,
                         std::byte* scales);

// One stored weight: column `col` of a row.
float level_value(const std::byte* codes, const std::byte* scales, int bits, int64_t col);

}  // namespace fathom
