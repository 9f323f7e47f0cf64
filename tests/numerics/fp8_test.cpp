#include "numerics/fp8_e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom {
namespace {

// The format's definition in double precision.
double value_of(int code) {
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 0) return sign * std::ldexp(mantissa, -9);
  return sign * std::ldexp(8 + mantissa, exponent - 10);
}

TEST(Fp8, All256CodesDecode) {
  for (int code = 0; code < 256; ++code) {
    const float value = fp8_e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value)) << code;
      EXPECT_TRUE(fp8_e4m3_is_nan(static_cast<uint8_t>(code)));
      continue;
    }
    EXPECT_FALSE(fp8_e4m3_is_nan(static_cast<uint8_t>(code)));
    EXPECT_EQ(value, value_of(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
    EXPECT_EQ(float_to_fp8_e4m3(value), code);
  }
  EXPECT_EQ(fp8_e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(fp8_e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(fp8_e4m3_to_float(0x08), 0x1p-6f);
}

TEST(Fp8, RoundsToNearestEven) {
  for (int code = 0; code < 0x7e; ++code) {
    const auto low = static_cast<float>(value_of(code));
    const auto high = static_cast<float>(value_of(code + 1));
    const float middle = (low + high) / 2;  // exact
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(float_to_fp8_e4m3(middle), even) << code;
    EXPECT_EQ(float_to_fp8_e4m3(-middle), even | 0x80) << code;
    EXPECT_EQ(float_to_fp8_e4m3(std::nextafter(middle, 0.0f)), code) << code;
    EXPECT_EQ(float_to_fp8_e4m3(std::nextafter(middle, 1e9f)), code + 1) << code;
  }
}

TEST(Fp8, SaturatesAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_fp8_e4m3(449.0f), 0x7e);
  EXPECT_EQ(float_to_fp8_e4m3(464.0f), 0x7e);
  EXPECT_EQ(float_to_fp8_e4m3(1e30f), 0x7e);
  EXPECT_EQ(float_to_fp8_e4m3(infinity), 0x7e);
  EXPECT_EQ(float_to_fp8_e4m3(-1e30f), 0xfe);
  EXPECT_EQ(float_to_fp8_e4m3(-infinity), 0xfe);
  EXPECT_EQ(float_to_fp8_e4m3(std::nanf("")), 0x7f);
  EXPECT_EQ(float_to_fp8_e4m3(-std::nanf("")), 0x7f);
  EXPECT_EQ(float_to_fp8_e4m3(std::numeric_limits<float>::denorm_min()), 0x00);
  EXPECT_EQ(float_to_fp8_e4m3(-0.0f), 0x80);
}

}  // namespace
}  // namespace fathom
