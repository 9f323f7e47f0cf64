#include "numerics/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace fathom {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The distance of `got` from `want` in units of the last place of a float there.
long double ulps(float got, long double want) {
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0.0L;
  if (std::isinf(got) || std::isinf(rounded)) return 1e9L;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(static_cast<long double>(got) - want) /
         std::ldexp(1.0L, std::max(exponent - 24, -149));
}

// Calls f(x) for some hundred thousand floats of every sign and exponent.
template <typename F>
void for_many_floats(const F& f) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4093) {
    f(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
}

TEST(Exp, IsCloseForEveryExponent) {
  long double worst = 0;
  for_many_floats([&](float x) {
    if (x == x) worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
  });
  for (int i = 0; i <= 2000000; ++i) {  // from denormal results to overflow
    const float x = -105.0f + static_cast<float>(i) * (195.0f / 2000000.0f);
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 1.5L);
}

TEST(Exp, SpecialValues) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_EQ(exp_f32(-kInf), 0.0f);
  EXPECT_FALSE(std::signbit(exp_f32(-kInf)));
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  EXPECT_EQ(exp_f32(88.8f), kInf);
  EXPECT_TRUE(std::isfinite(exp_f32(88.72f)));
  EXPECT_EQ(exp_f32(-103.0f), 0x1p-149f);  // denormals are not flushed
  EXPECT_EQ(exp_f32(-104.5f), 0.0f);
  EXPECT_EQ(exp_f64(0.0), 1.0);
  EXPECT_EQ(exp_f64(-1e300), 0.0);
  EXPECT_TRUE(std::isinf(exp_f64(1e300)));
  EXPECT_TRUE(std::isnan(exp_f64(std::nan(""))));
}

TEST(Log, IsCloseForEveryExponent) {
  long double worst = 0;
  for_many_floats([&](float x) {
    if (x > 0 && x < kInf) {
      worst = std::max(worst, ulps(log_f32(x), std::log(static_cast<long double>(x))));
    }
  });
  for (int i = -500000; i <= 500000; ++i) {  // around 1, where the result is small
    const float x = 1.0f + static_cast<float>(i) * 0x1p-22f;
    worst = std::max(worst, ulps(log_f32(x), std::log(static_cast<long double>(x))));
  }
  EXPECT_LT(worst, 1.5L);
}

TEST(Log, SpecialValues) {
  EXPECT_EQ(log_f32(1.0f), 0.0f);
  EXPECT_EQ(log_f32(0.0f), -kInf);
  EXPECT_EQ(log_f32(-0.0f), -kInf);
  EXPECT_EQ(log_f32(kInf), kInf);
  EXPECT_TRUE(std::isnan(log_f32(-1.0f)));
  EXPECT_TRUE(std::isnan(log_f32(kNan)));
  EXPECT_TRUE(std::isinf(log_f64(0.0)));
  EXPECT_TRUE(std::isnan(log_f64(-2.0)));
}

TEST(Sigmoid, IsCloseOnBothSides) {
  long double worst = 0;
  for_many_floats([&](float x) {
    if (x != x) return;
    const long double want = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    worst = std::max(worst, ulps(sigmoid_f32(x), want));
  });
  EXPECT_LT(worst, 3.0L);
  EXPECT_EQ(sigmoid_f32(0.0f), 0.5f);
  EXPECT_EQ(sigmoid_f32(kInf), 1.0f);
  EXPECT_EQ(sigmoid_f32(-kInf), 0.0f);
  EXPECT_TRUE(std::isnan(sigmoid_f32(kNan)));
}

class Doubles : public ::testing::Test {
 protected:
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(random_() >> 11) * 0x1p-53);
  }
  std::mt19937_64 random_{3};
};

long double relative(double got, long double want) {
  return std::fabs((static_cast<long double>(got) - want) / want);
}

TEST_F(Doubles, ExpAndLog) {
  long double exp_error = 0;
  long double log_error = 0;
  for (int i = 0; i < 300000; ++i) {
    const double x = between(-700, 700);
    exp_error = std::max(exp_error, relative(exp_f64(x), std::exp(static_cast<long double>(x))));
    const double y = i % 2 == 0 ? std::exp(x) : 1.0 + between(-0.01, 0.01);
    log_error = std::max(log_error, relative(log_f64(y), std::log(static_cast<long double>(y))));
  }
  EXPECT_LT(exp_error, 1e-15L);
  EXPECT_LT(log_error, 1e-15L);
  EXPECT_EQ(log_f64(1.0), 0.0);
  EXPECT_LT(relative(log_f64(0x1p-1070), std::log(0x1p-1070L)), 1e-15L);  // a denormal
}

TEST_F(Doubles, Pow) {
  long double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    const double base = std::exp(between(-20, 20));
    const double exponent = between(-34, 34);
    const long double want =
        std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    worst = std::max(worst, relative(pow_f64(base, exponent), want));
  }
  EXPECT_LT(worst, 1e-14L);
  EXPECT_EQ(pow_f64(10000.0, 0.0), 1.0);
  EXPECT_EQ(pow_f64(1.0, 1e300), 1.0);
  EXPECT_TRUE(std::isinf(pow_f64(10.0, 1e9)));
  EXPECT_EQ(pow_f64(10.0, -1e9), 0.0);
  EXPECT_TRUE(std::isnan(pow_f64(-1.0, 0.5)));
}

TEST_F(Doubles, SinAndCosOverLongContexts) {
  long double worst = 0;
  int wrong_floats = 0;
  const int count = 300000;
  for (int i = 0; i < count; ++i) {
    // Angles as rotary embeddings have them: floats, up to the last positions of a context.
    const double x = static_cast<float>(between(0, 200000));
    const long double s = std::sin(static_cast<long double>(x));
    const long double c = std::cos(static_cast<long double>(x));
    worst = std::max({worst, std::fabs(sin_f64(x) - s), std::fabs(cos_f64(x) - c)});
    wrong_floats += static_cast<float>(sin_f64(x)) != static_cast<float>(s);
    wrong_floats += static_cast<float>(cos_f64(x)) != static_cast<float>(c);
  }
  EXPECT_LT(worst, 3e-16L);
  EXPECT_EQ(wrong_floats, 0);
}

TEST_F(Doubles, SinAndCosOfLargeAndSpecialAngles) {
  long double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    const double x = between(-0x1p30, 0x1p30);
    worst = std::max({worst, std::fabs(sin_f64(x) - std::sin(static_cast<long double>(x))),
                      std::fabs(cos_f64(x) - std::cos(static_cast<long double>(x)))});
  }
  EXPECT_LT(worst, 1e-12L);
  // Beside multiples of pi/2 nothing may be lost to cancellation.
  for (int k = 1; k < 100000; k += 7) {
    const double x = static_cast<double>(k) * 3.14159265358979323846;
    const long double want = std::sin(static_cast<long double>(x));
    EXPECT_LT(std::fabs(sin_f64(x) - want), 1e-12L * std::fabs(want) + 1e-19L) << k;
  }
  EXPECT_EQ(sin_f64(0.0), 0.0);
  EXPECT_EQ(cos_f64(0.0), 1.0);
  EXPECT_TRUE(std::isnan(sin_f64(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(cos_f64(std::nan(""))));
}

}  // namespace
}  // namespace fathom
