// Constants of exp_f32 and sigmoid_f32, for the vector kernels that repeat them lane by lane.
//
// The steps of exp_f32, each with its own rounding:
//   x = min(kExpHigh, max(kExpLow, x)), NaN passing through
//   t = fma(x, kLog2e, kRoundMagic); n = t - kRoundMagic   (nearest integer, also in t's low bits)
//   r = fma(-n, kLn2High, x); r = fma(-n, kLn2Low, r)
//   q = fma(kExp6, r, kExp5); q = fma(q, r, kExp4); fma(.., kExp3); fma(.., kExp2)
//   p = fma(q, r * r, r) + 1
//   exp = p * 2^(n >> 1) * 2^(n - (n >> 1))   (the first product is exact; the second rounds once)
// and of sigmoid_f32: e = exp_f32(-|x|); (x < 0 ? e : 1) / (1 + e).
#pragma once

namespace fathom::elementary {

constexpr float kExpHigh = 89.0f;   // exp is infinite above 88.72
constexpr float kExpLow = -104.0f;  // exp rounds to 0 below -103.97
constexpr float kLog2e = 0x1.715476p+0f;
constexpr float kRoundMagic = 0x1.8p+23f;  // adding it rounds to an integer
constexpr float kLn2High = 0x1.62e43p-1f;
constexpr float kLn2Low = -0x1.05c61p-29f;
// (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2, relative error 2^-28.
constexpr float kExp2 = 0x1.fffffcp-2f;
constexpr float kExp3 = 0x1.55548ap-3f;
constexpr float kExp4 = 0x1.55589ep-5f;
constexpr float kExp5 = 0x1.123f7cp-7f;
constexpr float kExp6 = 0x1.6a6adp-10f;

}  // namespace fathom::elementary
