#include "numerics/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace fathom {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

double fp16_value(int bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Fp16, EveryPatternDecodesAndReturns) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = fp16_to_float(static_cast<uint16_t>(bits));
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_EQ(float_to_fp16(value), bits | 0x200) << bits;  // the same NaN, quiet
      continue;
    }
    ASSERT_EQ(value, fp16_value(bits)) << bits;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    ASSERT_EQ(float_to_fp16(value), bits);
  }
}

TEST(Fp16, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<float>(fp16_value(bits));
    const auto high = static_cast<float>(fp16_value(bits + 1));
    const float middle = (low + high) / 2;  // exact
    const int even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(float_to_fp16(middle), even) << bits;
    ASSERT_EQ(float_to_fp16(-middle), even | 0x8000) << bits;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(float_to_fp16(std::nextafter(middle, 1e9f)), bits + 1) << bits;
  }
}

TEST(Fp16, Overflow) {
  EXPECT_EQ(float_to_fp16(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_fp16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_fp16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(Bf16, EveryPatternReturns) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    ASSERT_EQ(bits_of(value), static_cast<uint32_t>(bits) << 16);
    const int quiet = (bits & 0x7fff) > 0x7f80 ? 0x40 : 0;
    ASSERT_EQ(float_to_bf16(value), bits | quiet) << bits;
  }
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f817fffu)), 0x3f81);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x00008001u)), 0x0001);  // a denormal
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // NaN, not infinity
}

}  // namespace
}  // namespace fathom
