#include "checkpoint/dense_tensors.h"

#include <utility>

namespace fathom {

std::vector<ExpectedTensor> expected_dense_tensors(const DenseConfig& c) {
  std::vector<ExpectedTensor> list;
  list.push_back({std::string(names::kEmbedding), {c.vocab_size, c.hidden_size}});
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const auto vector = [&](std::string_view name, int64_t size) {
      list.push_back({names::layer(layer, name), {size}});
    };
    const auto matrix = [&](const std::string& name, int64_t rows, int64_t cols, bool bias) {
      list.push_back({names::layer(layer, name + ".weight"), {rows, cols}, true});
      list.back().packable = true;
      if (bias) vector(name + ".bias", rows);
    };
    vector("input_layernorm.weight", c.hidden_size);
    matrix("self_attn.q_proj", c.q_rows(), c.hidden_size, c.qkv_bias);
    matrix("self_attn.k_proj", c.kv_rows(), c.hidden_size, c.qkv_bias);
    matrix("self_attn.v_proj", c.kv_rows(), c.hidden_size, c.qkv_bias);
    matrix("self_attn.o_proj", c.hidden_size, c.q_rows(), c.o_bias);
    if (c.qk_norm) {
      vector("self_attn.q_norm.weight", c.head_dim);
      vector("self_attn.k_norm.weight", c.head_dim);
    }
    vector("post_attention_layernorm.weight", c.hidden_size);
    matrix("mlp.gate_proj", c.intermediate_size, c.hidden_size, false);
    matrix("mlp.up_proj", c.intermediate_size, c.hidden_size, false);
    matrix("mlp.down_proj", c.hidden_size, c.intermediate_size, false);
  }
  list.push_back({std::string(names::kFinalNorm), {c.hidden_size}});
  if (!c.tie_word_embeddings) {
    list.push_back({std::string(names::kHead), {c.vocab_size, c.hidden_size}});
  }
  return list;
}

TensorComparison compare_dense_tensors(const Checkpoint& checkpoint, const DenseConfig& config) {
  TensorChecker checker(checkpoint, config.weight_block_rows, config.weight_block_cols);
  for (const ExpectedTensor& expected : expected_dense_tensors(config)) checker.check(expected);
  TensorReport report;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    // Some exporters save the tied head again, and old ones a table that is computed here.
    const bool tied = config.tie_word_embeddings && tensor.name == names::kHead;
    const bool table = tensor.name.ends_with(".rotary_emb.inv_freq");
    if (!checker.is_known(tensor.name) && !tied && !table) report.unexpected.push_back(tensor.name);
  }
  return {std::move(report), checker.take_problems()};
}

}  // namespace fathom
