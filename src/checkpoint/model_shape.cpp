#include "checkpoint/model_shape.h"

namespace fathom {

ModelShape shape_of(const DeepseekConfig& config) {
  return {"DeepseekV3ForCausalLM",
          config.vocab_size,
          config.hidden_size,
          config.num_hidden_layers,
          config.num_attention_heads,
          config.max_position_embeddings,
          config.rope_scaling.type == RopeType::dynamic};
}

ModelShape shape_of(const DenseConfig& config) {
  return {config.architecture,
          config.vocab_size,
          config.hidden_size,
          config.num_hidden_layers,
          config.num_attention_heads,
          config.max_position_embeddings,
          config.rope_scaling.type == RopeType::dynamic};
}

}  // namespace fathom
