// Rotary position embedding of DeepseekV3: interleaved pairs, scaling none, linear, dynamic or
// yarn.
#pragma once

#include "checkpoint/hf_config.h"
#include "model/rotary.h"

namespace fathom {

class Rope : public Rotary {
 public:
  explicit Rope(const DeepseekConfig& config);

  // Rotates one head's dim() values, see rotate_neighbours().
  void rotate(const float* cos_sin, const float* x, float* y) const {
    rotate_neighbours(cos_sin, dim(), x, y);
  }

  // 1 / sqrt(qk_head_dim), times yarn's magnitude squared.
  double softmax_scale() const { return softmax_scale_; }

 private:
  double softmax_scale_;
};

}  // namespace fathom
