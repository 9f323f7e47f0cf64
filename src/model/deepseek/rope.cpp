#include "model/deepseek/rope.h"

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

Rope::Rope(const DeepseekConfig& config) : config_(config), dim_(config.qk_rope_head_dim) {
  const RopeScaling& scaling = config.rope_scaling;
  for (int64_t i = 0; i < dim_ / 2; ++i) inv_freq_.push_back(frequency(i, config.rope_theta));
  softmax_scale_ = 1.0 / std::sqrt(static_cast<double>(config.qk_head_dim()));
  if (scaling.type != RopeType::none && scaling.mscale_all_dim != 0) {
    const double m = yarn_mscale(scaling.factor, scaling.mscale_all_dim);
    softmax_scale_ *= m * m;
  }
  if (scaling.type == RopeType::yarn) {
    cos_sin_scale_ = static_cast<float>(yarn_mscale(scaling.factor, scaling.mscale) /
                                        yarn_mscale(scaling.factor, scaling.mscale_all_dim));
  }
}

// Every step is rounded to float32 as the reference rounds it: at position 160,000 the last bit of
// a frequency is a hundredth of a radian.
float Rope::frequency(int64_t pair, double base) const {
  const RopeScaling& scaling = config_.rope_scaling;
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(dim_);
  const auto power = static_cast<float>(pow_f64(base, exponent));
  const float extrapolated = 1.0f / power;
  if (scaling.type != RopeType::yarn) return extrapolated;

  const int64_t original = scaling.original_max_position_embeddings;
  const double fast = std::floor(yarn_dimension(scaling.beta_fast, dim_, base, original));
  const double slow = std::ceil(yarn_dimension(scaling.beta_slow, dim_, base, original));
  const double low = std::max(fast, 0.0);
  double high = std::min(slow, static_cast<double>(dim_ - 1));
  if (low == high) high += 0.001;
  const float ramp = std::clamp(
      (static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
      1.0f);
  const float interpolated = 1.0f / (static_cast<float>(scaling.factor) * power);
  const float keep = 1.0f - ramp;
  return interpolated * (1.0f - keep) + extrapolated * keep;
}

void Rope::angles(int64_t position, int64_t sequence_length, float* cos_sin) const {
  const RopeScaling& scaling = config_.rope_scaling;
  const auto positions = static_cast<double>(config_.max_position_embeddings);
  const auto length = static_cast<double>(sequence_length);
  const bool stretched = scaling.type == RopeType::dynamic && length > positions;
  double base = config_.rope_theta;
  if (stretched) {
    const auto dim = static_cast<double>(dim_);
    base *= pow_f64(scaling.factor * length / positions - (scaling.factor - 1), dim / (dim - 2));
  }
  auto t = static_cast<float>(position);
  if (scaling.type == RopeType::linear) t /= static_cast<float>(scaling.factor);
  for (int64_t i = 0; i < dim_ / 2; ++i) {
    const float angle = t * (stretched ? frequency(i, base) : inv_freq_[static_cast<size_t>(i)]);
    cos_sin[i] = static_cast<float>(cos_f64(angle)) * cos_sin_scale_;
    cos_sin[dim_ / 2 + i] = static_cast<float>(sin_f64(angle)) * cos_sin_scale_;
  }
}

void Rope::rotate(const float* cos_sin, const float* x, float* y) const {
  const int64_t half = dim_ / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float cosine = cos_sin[i];
    const float sine = cos_sin[half + i];
    y[i] = x[2 * i] * cosine - x[2 * i + 1] * sine;
    y[half + i] = x[2 * i + 1] * cosine + x[2 * i] * sine;
  }
}

}  // namespace fathom
