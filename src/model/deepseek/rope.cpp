#include "model/deepseek/rope.h"

#include <cmath>

namespace fathom {
namespace {

RotaryOptions options_of(const DeepseekConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  RotaryOptions options;
  options.dim = config.qk_rope_head_dim;
  options.theta = config.rope_theta;
  options.scaling = scaling;
  options.max_position_embeddings = config.max_position_embeddings;
  if (scaling.type == RopeType::yarn) {
    options.cos_sin_scale = yarn_mscale(scaling.factor, scaling.mscale) /
                            yarn_mscale(scaling.factor, scaling.mscale_all_dim);
  }
  return options;
}

}  // namespace

Rope::Rope(const DeepseekConfig& config)
    : Rotary(options_of(config)),
      softmax_scale_(1.0 / std::sqrt(static_cast<double>(config.qk_head_dim()))) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type == RopeType::none || scaling.mscale_all_dim == 0) return;
  const double m = yarn_mscale(scaling.factor, scaling.mscale_all_dim);
  softmax_scale_ *= m * m;
}

}  // namespace fathom
