#include "model/rotary.h"

#include <algorithm>
#include <cmath>

#include "numerics/elementary.h"

namespace fathom {
namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * log_f64(factor) + 1.0;
}

double yarn_dimension(double rotations, int64_t dim, double base, int64_t original_positions) {
  return static_cast<double>(dim) *
         log_f64(static_cast<double>(original_positions) / (rotations * 2 * kPi)) /
         (2 * log_f64(base));
}

Rotary::Rotary(const RotaryOptions& options)
    : options_(options), cos_sin_scale_(static_cast<float>(options.cos_sin_scale)) {
  for (int64_t i = 0; i < options.dim / 2; ++i) inv_freq_.push_back(frequency(i, options.theta));
}

// Every step is rounded to float32 as the reference rounds it: at position 160,000 the last bit of
// a frequency is a hundredth of a radian.
float Rotary::frequency(int64_t pair, double base) const {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(options_.dim);
  const auto power = static_cast<float>(pow_f64(base, exponent));
  switch (options_.scaling.type) {
    case RopeType::yarn:
      return yarn_frequency(pair, power);
    case RopeType::llama3:
      return llama3_frequency(1.0f / power);
    default:
      return 1.0f / power;
  }
}

float Rotary::yarn_frequency(int64_t pair, float power) const {
  const RopeScaling& scaling = options_.scaling;
  const int64_t original = scaling.original_max_position_embeddings;
  const int64_t dim = options_.dim;
  const double fast = std::floor(yarn_dimension(scaling.beta_fast, dim, options_.theta, original));
  const double slow = std::ceil(yarn_dimension(scaling.beta_slow, dim, options_.theta, original));
  const double low = std::max(fast, 0.0);
  double high = std::min(slow, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const float ramp = std::clamp(
      (static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
      1.0f);
  const float interpolated = 1.0f / (static_cast<float>(scaling.factor) * power);
  const float extrapolated = 1.0f / power;
  const float keep = 1.0f - ramp;
  return interpolated * (1.0f - keep) + extrapolated * keep;
}

// Waves longer than the original context (by low_freq_factor) are stretched, those much shorter
// stay, and between them one passes into the other.
float Rotary::llama3_frequency(float inverse) const {
  const RopeScaling& scaling = options_.scaling;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const float wave = static_cast<float>(2 * kPi) / inverse;
  const auto factor = static_cast<float>(scaling.factor);
  if (wave > static_cast<float>(original / scaling.low_freq_factor)) return inverse / factor;
  if (wave < static_cast<float>(original / scaling.high_freq_factor)) return inverse;
  const float smooth =
      (static_cast<float>(original) / wave - static_cast<float>(scaling.low_freq_factor)) /
      static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0f - smooth) * (inverse / factor) + smooth * inverse;
}

void Rotary::angles(int64_t position, int64_t sequence_length, float* cos_sin) const {
  const RopeScaling& scaling = options_.scaling;
  const auto positions = static_cast<double>(options_.max_position_embeddings);
  const auto length = static_cast<double>(sequence_length);
  const bool stretched = scaling.type == RopeType::dynamic && length > positions;
  const int64_t half = options_.dim / 2;
  double base = options_.theta;
  if (stretched) {
    const auto dim = static_cast<double>(options_.dim);
    base *= pow_f64(scaling.factor * length / positions - (scaling.factor - 1), dim / (dim - 2));
  }
  auto t = static_cast<float>(position);
  if (scaling.type == RopeType::linear) t /= static_cast<float>(scaling.factor);
  for (int64_t i = 0; i < half; ++i) {
    const float angle = t * (stretched ? frequency(i, base) : inv_freq_[static_cast<size_t>(i)]);
    cos_sin[i] = static_cast<float>(cos_f64(angle)) * cos_sin_scale_;
    cos_sin[half + i] = static_cast<float>(sin_f64(angle)) * cos_sin_scale_;
  }
}

void rotate_halves(const float* cos_sin, int64_t dim, const float* x, float* y) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = cos_sin[i];
    const float sine = cos_sin[half + i];
    y[i] = x[i] * cosine - x[half + i] * sine;
    y[half + i] = x[half + i] * cosine + x[i] * sine;
  }
}

void rotate_neighbours(const float* cos_sin, int64_t dim, const float* x, float* y) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = cos_sin[i];
    const float sine = cos_sin[half + i];
    y[i] = x[2 * i] * cosine - x[2 * i + 1] * sine;
    y[half + i] = x[2 * i + 1] * cosine + x[2 * i] * sine;
  }
}

}  // namespace fathom
