#include "graph/export/decoder_shape.h"

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/dense_config.h"
#include "model/rotary.h"

namespace fathom {

DecoderShape read_decoder_shape(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const std::string text = read_text(path, 1 << 20);
  DecoderShape shape;
  shape.architecture = architecture_of(text, path);
  if (shape.architecture != "Qwen2ForCausalLM" && shape.architecture != "LlamaForCausalLM") {
    fail_input(
        "{}: architectures: {} cannot be exported; Qwen2ForCausalLM and LlamaForCausalLM can", path,
        shape.architecture);
  }
  const DenseConfig config = parse_dense_config(text, path);
  if (config.rope_scaling.type != RopeType::none && config.rope_scaling.type != RopeType::llama3) {
    fail_input("{}: rope_scaling: this type cannot be exported; llama3 can", path);
  }
  shape.vocab_size = config.vocab_size;
  shape.hidden_size = config.hidden_size;
  shape.intermediate_size = config.intermediate_size;
  shape.num_hidden_layers = config.num_hidden_layers;
  shape.num_attention_heads = config.num_attention_heads;
  shape.num_key_value_heads = config.num_key_value_heads;
  shape.head_dim = config.head_dim;
  shape.rms_norm_eps = config.rms_norm_eps;
  shape.rope_theta = config.rope_theta;
  shape.tied = config.tie_word_embeddings;
  RotaryOptions rotary;
  rotary.dim = config.head_dim;
  rotary.theta = config.rope_theta;
  rotary.scaling = config.rope_scaling;
  rotary.max_position_embeddings = config.max_position_embeddings;
  const std::vector<float> frequencies = Rotary(rotary).inverse_frequencies();
  shape.inverse_frequencies.assign(frequencies.begin(), frequencies.end());
  return shape;
}

}  // namespace fathom
