// config.json and generation_config.json, typed and checked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fathom {

enum class RopeType { none, linear, dynamic, yarn, llama3 };

struct RopeScaling {
  RopeType type = RopeType::none;
  double factor = 1;
  // yarn and llama3
  int64_t original_max_position_embeddings = 0;
  // yarn
  double beta_fast = 32;
  double beta_slow = 1;
  double mscale = 1;
  double mscale_all_dim = 0;  // of the softmax scale, and heeded there whatever the type
  // llama3
  double low_freq_factor = 1;
  double high_freq_factor = 4;
};

// DeepseekV3ForCausalLM. Field names are config.json's own.
struct DeepseekConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_nextn_predict_layers = 0;
  int64_t first_k_dense_replace = 0;
  int64_t moe_layer_freq = 1;
  int64_t intermediate_size = 0;
  int64_t moe_intermediate_size = 0;
  int64_t n_routed_experts = 0;  // 0: every layer is dense
  int64_t n_shared_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t n_group = 1;
  int64_t topk_group = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;
  int64_t num_attention_heads = 0;
  std::optional<int64_t> q_lora_rank;
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  bool attention_bias = false;
  double rms_norm_eps = 1e-6;
  int64_t max_position_embeddings = 0;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  int64_t ep_size = 1;
  // quantization_config; 0 where the checkpoint is not quantised
  int64_t weight_block_rows = 0;
  int64_t weight_block_cols = 0;

  // The MTP layer, stored as layer num_hidden_layers, is always an MoE layer.
  bool is_moe_layer(int64_t layer) const {
    if (n_routed_experts == 0) return false;
    return layer >= num_hidden_layers ||
           (layer >= first_k_dense_replace && layer % moe_layer_freq == 0);
  }
  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// Checks types, ranges and combinations; every problem in one Error(input) that names the fields.
DeepseekConfig parse_deepseek_config(std::string_view text, const std::string& path);
// architectures[0] of a config.json; Error(input) where there is none.
std::string architecture_of(std::string_view text, const std::string& path);

// generation_config.json; fields that are absent stay empty.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;  // a number or a list in the file
};
GenerationConfig parse_generation_config(std::string_view text, const std::string& path);

}  // namespace fathom
