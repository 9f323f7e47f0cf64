// Rotary position embedding of DeepseekV3: interleaved pairs, scaling none, linear, dynamic or
// yarn.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/hf_config.h"

namespace fathom {

class Rope {
 public:
  explicit Rope(const DeepseekConfig& config);

  // cos and sin of every pair at `position`, cos first, then sin: dim() floats.
  // `sequence_length` counts the positions of the sequence so far, this one's pass included; it
  // matters only to dynamic scaling beyond max_position_embeddings, where the base grows with it
  // (so that there results depend on how a prompt was cut).
  void angles(int64_t position, int64_t sequence_length, float* cos_sin) const;

  // Rotates one head's dim() values: `x` holds pairs (x0, x1) interleaved, as the checkpoint stores
  // them; `y` holds the rotated first elements, then the second ones. x and y must not overlap.
  void rotate(const float* cos_sin, const float* x, float* y) const;

  int64_t dim() const { return dim_; }
  // qk_head_dim^-0.5, times the square of yarn's mscale where mscale_all_dim asks for it.
  double softmax_scale() const { return softmax_scale_; }
  const std::vector<float>& inverse_frequencies() const { return inv_freq_; }
  float cos_sin_scale() const { return cos_sin_scale_; }

 private:
  float frequency(int64_t pair, double base) const;

  DeepseekConfig config_;
  int64_t dim_;
  std::vector<float> inv_freq_;
  float cos_sin_scale_ = 1;
  double softmax_scale_ = 1;
};

// yarn's magnitude: 0.1 * mscale * ln(factor) + 1, and 1 for factors up to 1.
double yarn_mscale(double factor, double mscale);
// The dimension that turns `rotations` times over the original context.
double yarn_dimension(double rotations, int64_t dim, double base, int64_t original_positions);

}  // namespace fathom
