// A Qwen2 or Llama decoder as the exporters see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fathom {

struct DecoderShape {
  std::string architecture;  // "Qwen2ForCausalLM"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tied = false;                        // the head is the embedding
  std::vector<double> inverse_frequencies;  // [head_dim / 2], radians per position

  int64_t q_width() const { return num_attention_heads * head_dim; }
  int64_t kv_width() const { return num_key_value_heads * head_dim; }
};

// From config.json of a folder; Error(input) that names every field that cannot be exported.
DecoderShape read_decoder_shape(const std::string& folder);

}  // namespace fathom
