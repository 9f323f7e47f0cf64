#include "numerics/int8_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace fathom {
namespace {

std::vector<int> bytes_of(const std::vector<float>& values, float* scale) {
  std::vector<std::byte> bytes(values.size(), std::byte{99});
  *scale = quantise_int8_row(values.data(), static_cast<int64_t>(values.size()), bytes.data());
  std::vector<int> numbers;
  for (const std::byte b : bytes) numbers.push_back(static_cast<int8_t>(b));
  return numbers;
}

TEST(Int8Row, RoundsToNearestEven) {
  float scale = 0;
  EXPECT_EQ(bytes_of({127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 1.25f, -126.75f, 0}, &scale),
            (std::vector<int>{127, 0, 2, 2, 0, -2, -2, 1, -127, 0}));
  EXPECT_EQ(scale, 1.0f);
  EXPECT_EQ(bytes_of({-254, 1, 3, 254}, &scale), (std::vector<int>{-127, 0, 2, 127}));
  EXPECT_EQ(scale, 2.0f);
}

TEST(Int8Row, ZerosAndWhatIsTooSmallHaveScaleZero) {
  float scale = 1;
  EXPECT_EQ(bytes_of({0, -0.0f, 0}, &scale), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(scale, 0.0f);
  scale = 1;
  EXPECT_EQ(bytes_of({0x1p-149f, -0x1p-148f}, &scale), (std::vector<int>{0, 0}));
  EXPECT_EQ(scale, 0.0f);
  scale = 1;
  EXPECT_EQ(bytes_of({}, &scale), std::vector<int>{});
  EXPECT_EQ(scale, 0.0f);
}

TEST(Int8Row, DenormalScalesDoNotOverflowBytes) {
  float scale = 0;
  EXPECT_EQ(bytes_of({190 * 0x1p-149f, -190 * 0x1p-149f, 3 * 0x1p-149f}, &scale),
            (std::vector<int>{127, -127, 3}));
  EXPECT_EQ(scale, 0x1p-149f);
}

TEST(Int8Row, WidenedValuesAreWithinHalfAStep) {
  std::mt19937 random(3);
  for (const int exponent : {-100, -6, 0, 90}) {
    std::vector<float> values;
    for (int i = 0; i < 1000; ++i) {
      const float unit = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
      values.push_back(std::ldexp(unit, exponent));
    }
    std::vector<std::byte> bytes(values.size());
    std::vector<float> back(values.size());
    const float scale = quantise_int8_row(values.data(), 1000, bytes.data());
    widen_int8_row(bytes.data(), scale, 1000, back.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(back[i], values[i], double{scale} * 0.50001);
      ASSERT_EQ(back[i], static_cast<float>(static_cast<int8_t>(bytes[i])) * scale);
    }
  }
}

}  // namespace
}  // namespace fathom
