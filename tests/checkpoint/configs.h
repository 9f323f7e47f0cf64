// Configurations for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace fathom {

// The released DeepSeek-R1.
inline nlohmann::json released_config() {
  return nlohmann::json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
    "attention_bias": false, "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1,
    "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
    "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256,
    "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                     "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
                     "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
    "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280})");
}

// The same architecture, a few thousand weights: layer 0 dense, layers 1 and 2 of experts, one MTP
// layer, and matrices larger than a block of 16 x 8.
inline nlohmann::json small_config() {
  nlohmann::json config = released_config();
  config.update(nlohmann::json::parse(R"({
    "first_k_dense_replace": 1, "hidden_size": 20, "intermediate_size": 36, "kv_lora_rank": 12,
    "moe_intermediate_size": 18, "n_group": 2, "n_routed_experts": 4, "num_attention_heads": 2,
    "num_experts_per_tok": 2, "num_hidden_layers": 3, "q_lora_rank": 10, "qk_nope_head_dim": 6,
    "qk_rope_head_dim": 4, "topk_group": 1, "v_head_dim": 5, "vocab_size": 30})"));
  config["quantization_config"]["weight_block_size"] = {16, 8};
  return config;
}

// The released DeepSeek-R1-Distill-Qwen-1.5B.
inline nlohmann::json qwen2_config() {
  return nlohmann::json::parse(R"({
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "bos_token_id": 151643,
    "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 1536, "intermediate_size": 8960,
    "max_position_embeddings": 131072, "num_attention_heads": 12, "num_hidden_layers": 28,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false,
    "vocab_size": 151936})");
}

// The released DeepSeek-R1-Distill-Llama-8B.
inline nlohmann::json llama_config() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false,
    "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "vocab_size": 128256})");
}

// 110 MiB of routed experts in layers that are otherwise small, and a head of 8 MiB.
inline nlohmann::json many_experts_config() {
  nlohmann::json config = released_config();
  config.update(nlohmann::json::parse(R"({
    "first_k_dense_replace": 1, "hidden_size": 512, "intermediate_size": 1024, "kv_lora_rank": 64,
    "max_position_embeddings": 4096, "moe_intermediate_size": 256, "n_group": 4,
    "n_routed_experts": 96, "num_attention_heads": 4, "num_experts_per_tok": 4,
    "num_hidden_layers": 4, "num_key_value_heads": 4, "num_nextn_predict_layers": 0,
    "q_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rope_scaling": null,
    "topk_group": 2, "v_head_dim": 32, "vocab_size": 8192})"));
  return config;
}

}  // namespace fathom
