#include "model/dense/weights.h"

#include <string>

#include "checkpoint/dense_tensors.h"
#include "checkpoint/expected_tensors.h"

namespace fathom {
namespace {

DenseLayerWeights layer_of(WeightLoader& loader, const DenseConfig& config,
                           const DenseChoice& choice, int64_t layer) {
  const auto vector = [&](std::string_view name, bool present) {
    return present ? loader.vector(names::layer(layer, name)) : nullptr;
  };
  const auto matrix = [&](std::string_view name, int64_t cols) {
    const std::string full = names::layer(layer, name);
    return choice.layers ? loader.quantised_matrix(full, *choice.layers, cols)
                         : loader.matrix(full, cols);
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
                                const DenseChoice& choice, ThreadPool& pool,
                                const CancelToken* cancel) {
  WeightLoader loader(checkpoint, config.weight_block_rows, config.weight_block_cols);
  DenseWeights weights;
  weights.vocabulary =
      load_vocabulary(loader, checkpoint, config.tie_word_embeddings, choice.vocabulary);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    // Memory is cleared here, which takes time.
    if (cancel != nullptr) cancel->throw_if_cancelled();
    weights.layers.push_back(layer_of(loader, config, choice, layer));
  }
  weights.norm = loader.vector(std::string(names::kFinalNorm));
  loader.load(pool, "loading", cancel);
  weights.memory = loader.take_memory();
  return weights;
}

int64_t added_layer_bytes(const Checkpoint& checkpoint, const DenseConfig& config, Part part,
                          WeightFormat format) {
  int64_t added = 0;
  for (const ExpectedTensor& expected : expected_dense_tensors(config)) {
    if (!expected.packable || part_in_layer(names::rest_in_layer(expected.name)) != part) continue;
    const TensorInfo* stored = checkpoint.find(expected.name);
    const int64_t rows = expected.shape[0];
    const int64_t cols = expected.shape[1];
    if (stored == nullptr || weight_format_of(*stored, rows, cols) == format) continue;
    added += static_cast<int64_t>(matrix_bytes(format, rows, cols)) -
             static_cast<int64_t>(stored->bytes);
  }
  return added;
}

}  // namespace fathom
