// The elementary functions of the computing path. libm picks its variant by processor, so the
// same-bits promise needs our own: only +, -, *, /, sqrt, fused multiply-add and integer steps.
#pragma once

namespace fathom {

// Within 1.5 ulp over the whole range; exp(-inf) = 0, overflow gives infinity, NaN stays NaN.
float exp_f32(float x);
float log_f32(float x);
// 1 / (1 + exp(-x)), without overflow on either side.
float sigmoid_f32(float x);
// Double precision for tables (RoPE, YaRN): within 1e-14 relative (sin, cos: 1e-12 absolute) up to
// |x| = 2^30, arguments reduced in extended steps.
double exp_f64(double x);
double log_f64(double x);
double pow_f64(double base, double exponent);  // base > 0
double sin_f64(double x);
double cos_f64(double x);

}  // namespace fathom
