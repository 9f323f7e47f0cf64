// config.json of the dense decoders: Qwen2, Llama and Qwen3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/hf_config.h"

namespace fathom {

// Field names are config.json's own; what the class of a model decides is resolved.
struct DenseConfig {
  std::string architecture;  // Qwen2ForCausalLM, LlamaForCausalLM, Qwen3ForCausalLM
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  bool qkv_bias = false;  // Qwen2 always; others by attention_bias
  bool o_bias = false;
  bool qk_norm = false;  // Qwen3: RMSNorm of each head's query and key before RoPE
  double rms_norm_eps = 1e-6;
  int64_t max_position_embeddings = 0;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double rope_attention_factor = 1;  // of cosine and sine; more than 1 with yarn only
  bool tie_word_embeddings = false;
  // quantization_config; 0 where the checkpoint is not FP8
  int64_t weight_block_rows = 0;
  int64_t weight_block_cols = 0;

  int64_t q_rows() const { return num_attention_heads * head_dim; }
  int64_t kv_rows() const { return num_key_value_heads * head_dim; }
};

bool is_dense_architecture(std::string_view name);
// Checks types, ranges and combinations; every problem in one Error(input) that names the fields.
DenseConfig parse_dense_config(std::string_view text, const std::string& path);

}  // namespace fathom
