#include "numerics/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/elementary_constants.h"

namespace fathom {
namespace {

using namespace elementary;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr double kInf64 = std::numeric_limits<double>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();

// 2^n for a normal result.
float power_of_two(int32_t n) { return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23); }
double power_of_two_f64(int64_t n) {
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

// A value in two doubles: high + low, |low| <= half an ulp of high.
struct Pair {
  double high;
  double low;
};

Pair sum(double a, double b) {
  const double s = a + b;
  const double b_part = s - a;
  return {s, (a - (s - b_part)) + (b - b_part)};
}

Pair product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

constexpr double kRoundMagic64 = 0x1.8p+52;
constexpr double kLog2e64 = 0x1.71547652b82fep+0;
// ln 2 in three parts; the first has 40 bits, so its product with an exponent is exact.
constexpr double kLn2A = 0x1.62e42fefa2p-1;
constexpr double kLn2B = 0x1.9ef35793c7673p-41;
// pi / 2 in three parts.
constexpr double kHalfPiA = 0x1.921fb54442d18p+0;
constexpr double kHalfPiB = 0x1.1a62633145c07p-54;
constexpr double kHalfPiC = -0x1.f1976b7ed8fbcp-110;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

// exp(x + tail), where |tail| is far below an ulp of 1.
double exp_pair(double x, double tail) {
  if (x > 710.0) return kInf64;
  if (x < -746.0) return 0.0;
  const double n = std::fma(x, kLog2e64, kRoundMagic64) - kRoundMagic64;
  double r = std::fma(-n, kLn2A, x);
  r = std::fma(-n, kLn2B, r) + tail;
  // Taylor: the term after r^13 is below 2^-57 for |r| <= ln(2) / 2.
  constexpr double kInverseFactorial[] = {
      1.0 / 2,     1.0 / 6,      1.0 / 24,      1.0 / 120,      1.0 / 720,       1.0 / 5040,
      1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  double q = kInverseFactorial[11];
  for (int i = 10; i >= 0; --i) q = std::fma(q, r, kInverseFactorial[i]);
  const double p = std::fma(q, r * r, r) + 1.0;
  const int64_t whole = static_cast<int64_t>(n);
  const int64_t half = whole >> 1;
  return p * power_of_two_f64(half) * power_of_two_f64(whole - half);
}

// ln(x) for finite x > 0, good to about 2^-60 relative.
Pair log_pair(double x) {
  int64_t exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 0x1.6a09e667f3bcdp+0) {  // above sqrt(2)
    m *= 0.5;
    exponent += 1;
  }
  // ln(m) = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1).
  const double f = m - 1.0;
  const Pair d = sum(m, 1.0);
  const double s = f / d.high;
  const double s_low = (std::fma(-s, d.high, f) - s * d.low) / d.high;
  const double z = s * s;
  double q = 1.0 / 25;
  for (int k = 23; k >= 3; k -= 2) q = std::fma(q, z, 1.0 / k);
  const double series = 2.0 * (s * z * q + s_low);
  const double e = static_cast<double>(exponent);
  const Pair a = sum(e * kLn2A, 2.0 * s);
  const Pair result = sum(a.high, a.low + (e * kLn2B + series));
  return result;
}

// x = quadrant * pi/2 + (high + low), |high| <= pi/4 and a little.
Pair reduce_by_half_pi(double x, int64_t& quadrant) {
  const double n = std::fma(x, kTwoOverPi, kRoundMagic64) - kRoundMagic64;
  quadrant = static_cast<int64_t>(n);
  const double a = std::fma(-n, kHalfPiA, x);  // exact: both sides are multiples of 2^-53
  const Pair b = product(n, kHalfPiB);
  const Pair r = sum(a, -b.high);
  return sum(r.high, r.low - b.low - n * kHalfPiC);
}

double sin_series(Pair r) {
  const double z = r.high * r.high;
  double q = 1.0 / 355687428096000.0;  // 1/17!
  q = std::fma(q, z, -1.0 / 1307674368000.0);
  q = std::fma(q, z, 1.0 / 6227020800.0);
  q = std::fma(q, z, -1.0 / 39916800.0);
  q = std::fma(q, z, 1.0 / 362880.0);
  q = std::fma(q, z, -1.0 / 5040.0);
  q = std::fma(q, z, 1.0 / 120.0);
  q = std::fma(q, z, -1.0 / 6.0);
  const double cos_r = 1.0 - 0.5 * z;  // enough for the low part
  return r.high + std::fma(r.high * z, q, r.low * cos_r);
}

double cos_series(Pair r) {
  const double z = r.high * r.high;
  double q = -1.0 / 6402373705728000.0;  // 1/18!
  q = std::fma(q, z, 1.0 / 20922789888000.0);
  q = std::fma(q, z, -1.0 / 87178291200.0);
  q = std::fma(q, z, 1.0 / 479001600.0);
  q = std::fma(q, z, -1.0 / 3628800.0);
  q = std::fma(q, z, 1.0 / 40320.0);
  q = std::fma(q, z, -1.0 / 720.0);
  q = std::fma(q, z, 1.0 / 24.0);
  const double half = 0.5 * z;
  const double head = 1.0 - half;
  return head + (((1.0 - head) - half) + std::fma(z * z, q, -r.high * r.low));
}

// Beyond this the quotient by pi/2 no longer fits the rounding constant.
constexpr double kMaxAngle = 0x1p50;

}  // namespace

float exp_f32(float x) {
  x = kExpLow > x ? kExpLow : x;
  x = kExpHigh < x ? kExpHigh : x;
  const float t = std::fma(x, kLog2e, kRoundMagic);
  const float n = t - kRoundMagic;
  float r = std::fma(-n, kLn2High, x);
  r = std::fma(-n, kLn2Low, r);
  float q = std::fma(kExp6, r, kExp5);
  q = std::fma(q, r, kExp4);
  q = std::fma(q, r, kExp3);
  q = std::fma(q, r, kExp2);
  const float p = std::fma(q, r * r, r) + 1.0f;
  // t's low bits hold n; the subtraction wraps harmlessly where x is NaN.
  const int32_t whole =
      static_cast<int32_t>(std::bit_cast<uint32_t>(t) - std::bit_cast<uint32_t>(kRoundMagic));
  if (x != x) return x;
  const int32_t half = whole >> 1;
  return p * power_of_two(half) * power_of_two(whole - half);
}

float log_f32(float x) {
  if (!(x > 0.0f)) return x == 0.0f ? -kInf : std::numeric_limits<float>::quiet_NaN();
  if (x == kInf) return kInf;
  int32_t exponent = 0;
  if (x < 0x1p-126f) {
    x *= 0x1p24f;
    exponent = -24;
  }
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  exponent += static_cast<int32_t>(bits >> 23) - 127;
  float m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f800000u);
  if (m > 0x1.6a09e6p+0f) {  // above sqrt(2)
    m *= 0.5f;
    exponent += 1;
  }
  // ln(1 + f) = f - (f^2/2 - s (f^2/2 + R)), s = f / (2 + f), R = 2/3 s^2 + 2/5 s^4 + ...
  const float f = m - 1.0f;
  const float s = f / (2.0f + f);
  const float z = s * s;
  float q = std::fma(0x1.f1c10cp-3f, z, 0x1.23d08p-2f);
  q = std::fma(q, z, 0x1.999c3p-2f);
  q = std::fma(q, z, 0x1.555554p-1f);
  const float half_square = 0.5f * f * f;
  const float e = static_cast<float>(exponent);
  constexpr float kHigh = 0x1.62e4p-1f;  // 16 bits: exact when multiplied by an exponent
  constexpr float kLow = 0x1.7f7d1cp-20f;
  const float tail = std::fma(s, std::fma(q, z, half_square), e * kLow) - half_square;
  return e * kHigh + (f + tail);
}

float sigmoid_f32(float x) {
  const float e = exp_f32(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

double exp_f64(double x) {
  if (x != x) return x;
  return exp_pair(x, 0.0);
}

double log_f64(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -kInf64 : kNan64;
  if (x == kInf64) return x;
  return log_pair(x).high;
}

double pow_f64(double base, double exponent) {
  if (exponent == 0.0 || base == 1.0) return 1.0;
  if (!(base > 0.0) || exponent != exponent) return kNan64;
  if (base == kInf64) return exponent > 0.0 ? kInf64 : 0.0;
  const Pair l = log_pair(base);
  const Pair y = product(exponent, l.high);
  // Far outside, the low part would be infinite minus infinite.
  if (y.high > 1000.0) return kInf64;
  if (y.high < -1000.0) return 0.0;
  return exp_pair(y.high, std::fma(exponent, l.low, y.low));
}

double sin_f64(double x) {
  if (!(x >= -kMaxAngle && x <= kMaxAngle)) return kNan64;
  int64_t quadrant = 0;
  const Pair r = reduce_by_half_pi(x, quadrant);
  const double value = (quadrant & 1) != 0 ? cos_series(r) : sin_series(r);
  return (quadrant & 2) != 0 ? -value : value;
}

double cos_f64(double x) {
  if (!(x >= -kMaxAngle && x <= kMaxAngle)) return kNan64;
  int64_t quadrant = 0;
  const Pair r = reduce_by_half_pi(x, quadrant);
  const double value = (quadrant & 1) != 0 ? sin_series(r) : cos_series(r);
  return ((quadrant + 1) & 2) != 0 ? -value : value;
}

}  // namespace fathom
