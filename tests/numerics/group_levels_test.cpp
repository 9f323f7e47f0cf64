#include "numerics/group_levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "numerics/half.h"

namespace fathom {
namespace {

struct Row {
  Row(const std::vector<float>& values, int bits)
      : bits(bits),
        codes(static_cast<size_t>(level_row_bytes(static_cast<int64_t>(values.size()), bits))),
        scales(static_cast<size_t>(level_row_scales(static_cast<int64_t>(values.size())) * 2)) {
    quantise_levels_row(values.data(), static_cast<int64_t>(values.size()), bits, codes.data(),
                        scales.data());
  }
  float at(size_t col) const {
    return level_value(codes.data(), scales.data(), bits, static_cast<int64_t>(col));
  }
  float scale(size_t group) const {
    uint16_t stored;
    std::memcpy(&stored, scales.data() + group * 2, 2);
    return bf16_to_float(stored);
  }
  int bits;
  std::vector<std::byte> codes, scales;
};

std::vector<float> normal_values(size_t count, float size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    float sum = -6;  // of 12 uniform numbers: close to a normal distribution
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(random() >> 8) * 0x1p-24f;
    value = sum * size;
  }
  return values;
}

double relative_error(const std::vector<float>& values, const Row& row) {
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    errors += std::pow(double{row.at(i)} - values[i], 2);
    squares += std::pow(double{values[i]}, 2);
  }
  return errors / squares;
}

// Even levels and the same scales would give 0.0087, 0.033 and 0.114.
TEST(GroupLevels, ErrorOfNormalWeights) {
  const std::vector<float> values = normal_values(64 * 400, 0.03f, 1);
  EXPECT_LT(relative_error(values, Row(values, 4)), 0.0075);
  EXPECT_LT(relative_error(values, Row(values, 3)), 0.0305);
  EXPECT_LT(relative_error(values, Row(values, 2)), 0.122);
}

TEST(GroupLevels, AnyMagnitude) {
  for (const int bits : {2, 3, 4}) {
    for (const float size : {1e-36f, 1e-25f, 1e-10f, 1.0f, 1e10f, 1e30f, 3e37f}) {
      const std::vector<float> values = normal_values(640, size, 2);
      EXPECT_LT(relative_error(values, Row(values, bits)), 0.13) << bits << " " << size;
    }
  }
}

TEST(GroupLevels, EachCodeAtItsPlace) {
  // What is a level times a scale already comes back exactly, wherever it stands.
  for (const int bits : {2, 3, 4}) {
    std::mt19937 random(3);
    for (const size_t count :
         {size_t{1}, size_t{15}, size_t{64}, size_t{100}, size_t{200}, size_t{256}}) {
      std::vector<float> values(count);
      for (size_t i = 0; i < count; ++i) {
        const auto code = static_cast<uint32_t>(random() >> 8) & ((1u << bits) - 1);
        values[i] = static_cast<float>(i % 64 == 0 ? 127 : level_of(bits, code)) * 0.0078125f *
                    static_cast<float>(1 + i / 64);
      }
      const Row row(values, bits);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(row.at(i), values[i]) << bits << " " << i;
    }
  }
}

TEST(GroupLevels, LevelsAreSymmetricAndAscending) {
  for (const int bits : {2, 3, 4}) {
    const uint32_t half = 1u << (bits - 1);
    EXPECT_EQ(level_of(bits, half - 1), 127);
    for (uint32_t code = 0; code < half; ++code) {
      EXPECT_EQ(level_of(bits, code), -level_of(bits, code | half));
      if (code == 0) continue;
      EXPECT_GT(level_of(bits, code), level_of(bits, code - 1));
    }
  }
}

TEST(GroupLevels, ZerosAndPadding) {
  for (const int bits : {2, 3, 4}) {
    std::vector<float> values(70);
    values[69] = -1;
    const Row row(values, bits);
    EXPECT_EQ(row.scale(0), 0);
    EXPECT_GT(row.scale(1), 0);
    EXPECT_LT(row.at(69), -0.5f);  // five zeros beside it pull the scale down
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(row.at(i), 0);
    // Columns that are missing have code 0.
    for (int64_t col = 70; col < 128; ++col) {
      EXPECT_EQ(level_value(row.codes.data(), row.scales.data(), bits, col),
                static_cast<float>(level_of(bits, 0)) * row.scale(1));
    }
  }
}

}  // namespace
}  // namespace fathom
