// What everybody may want to know of a model, whatever its architecture.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/dense_config.h"
#include "checkpoint/hf_config.h"

namespace fathom {

// Names are config.json's own.
struct ModelShape {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t max_position_embeddings = 0;
  bool dynamic_rope = false;  // RoPE scaling that is made for contexts beyond that
};

ModelShape shape_of(const DeepseekConfig& config);
ModelShape shape_of(const DenseConfig& config);

}  // namespace fathom
