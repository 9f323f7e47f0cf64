#include "model/dense/weights.h"

#include <string>

#include "checkpoint/expected_tensors.h"

namespace fathom {
namespace {

DenseLayerWeights layer_of(WeightLoader& loader, const DenseConfig& config, int64_t layer) {
  const auto vector = [&](std::string_view name, bool present) {
    return present ? loader.vector(names::layer(layer, name)) : nullptr;
  };
  const auto matrix = [&](std::string_view name, int64_t cols) {
    return loader.matrix(names::layer(layer, name), cols);
  };
  const int64_t hidden = config.hidden_size;
  DenseLayerWeights w;
  w.input_layernorm = vector("input_layernorm.weight", true);
  w.q_proj = matrix("self_attn.q_proj.weight", hidden);
  w.k_proj = matrix("self_attn.k_proj.weight", hidden);
  w.v_proj = matrix("self_attn.v_proj.weight", hidden);
  w.o_proj = matrix("self_attn.o_proj.weight", config.q_rows());
  w.q_bias = vector("self_attn.q_proj.bias", config.qkv_bias);
  w.k_bias = vector("self_attn.k_proj.bias", config.qkv_bias);
  w.v_bias = vector("self_attn.v_proj.bias", config.qkv_bias);
  w.o_bias = vector("self_attn.o_proj.bias", config.o_bias);
  w.q_norm = vector("self_attn.q_norm.weight", config.qk_norm);
  w.k_norm = vector("self_attn.k_norm.weight", config.qk_norm);
  w.post_attention_layernorm = vector("post_attention_layernorm.weight", true);
  w.mlp = {matrix("mlp.gate_proj.weight", hidden), matrix("mlp.up_proj.weight", hidden),
           matrix("mlp.down_proj.weight", config.intermediate_size)};
  return w;
}

}  // namespace

DenseWeights load_dense_weights(const Checkpoint& checkpoint, const DenseConfig& config,
                                const VocabularyChoice& choice, ThreadPool& pool,
                                const CancelToken* cancel) {
  WeightLoader loader(checkpoint, config.weight_block_rows, config.weight_block_cols);
  DenseWeights weights;
  weights.vocabulary = load_vocabulary(loader, checkpoint, config.tie_word_embeddings, choice);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    // Memory is cleared here, which takes time.
    if (cancel != nullptr) cancel->throw_if_cancelled();
    weights.layers.push_back(layer_of(loader, config, layer));
  }
  weights.norm = loader.vector(std::string(names::kFinalNorm));
  loader.load(pool, "loading", cancel);
  weights.memory = loader.take_memory();
  return weights;
}

}  // namespace fathom
