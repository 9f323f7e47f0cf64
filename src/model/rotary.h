// Rotary position embedding: the angles of every pair of values at a position.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/hf_config.h"

namespace fathom {

struct RotaryOptions {
  int64_t dim = 0;  // values of a head that are turned
  double theta = 10000;
  RopeScaling scaling;
  int64_t max_position_embeddings = 0;
  double cos_sin_scale = 1;  // of every cosine and sine
};

class Rotary {
 public:
  explicit Rotary(const RotaryOptions& options);

  // cos and sin of every pair at `position`, cos first, then sin: dim() floats.
  // `sequence_length` counts the positions of the sequence so far, this one's pass included; it
  // matters only to dynamic scaling beyond max_position_embeddings, where the base grows with it
  // (so that there results depend on how a prompt was cut).
  void angles(int64_t position, int64_t sequence_length, float* cos_sin) const;

  int64_t dim() const { return options_.dim; }
  const std::vector<float>& inverse_frequencies() const { return inv_freq_; }
  float cos_sin_scale() const { return cos_sin_scale_; }

 private:
  float frequency(int64_t pair, double base) const;
  float yarn_frequency(int64_t pair, float power) const;
  float llama3_frequency(float inverse) const;

  RotaryOptions options_;
  std::vector<float> inv_freq_;
  float cos_sin_scale_;
};

// The pairs are a head's first half and its second one. `x` may not overlap `y`.
void rotate_halves(const float* cos_sin, int64_t dim, const float* x, float* y);
// The pairs are neighbours, as DeepseekV3 stores them: `y` holds the rotated first elements, then
// the second ones.
void rotate_neighbours(const float* cos_sin, int64_t dim, const float* x, float* y);

// yarn's magnitude: 0.1 * mscale * ln(factor) + 1, and 1 for factors up to 1.
double yarn_mscale(double factor, double mscale);
// The dimension that turns `rotations` times over the original context.
double yarn_dimension(double rotations, int64_t dim, double base, int64_t original_positions);

}  // namespace fathom
