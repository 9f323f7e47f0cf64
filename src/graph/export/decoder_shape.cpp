#include "graph/export/decoder_shape.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/hf_config.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

using nlohmann::json;

// Low frequencies (long waves) are slowed down by `factor`, high ones stay, between the two a
// straight line in the number of turns within the original context.
void scale_llama3(const json& scaling, std::vector<double>* frequencies,
                  std::vector<std::string>* problems) {
  ConfigFields fields(scaling, "rope_scaling.", problems);
  const double factor = fields.required_number("factor", {1, 1e6});
  const double low = fields.required_number("low_freq_factor", {0, 1e6, true});
  const double high = fields.required_number("high_freq_factor", {0, 1e6, true});
  const auto original = static_cast<double>(
      fields.required_int("original_max_position_embeddings", {1, int64_t{1} << 40}));
  if (high <= low) fields.problem("high_freq_factor", "must be above low_freq_factor");
  if (!problems->empty()) return;
  for (double& frequency : *frequencies) {
    const double turns = original * frequency / (2 * std::numbers::pi);
    const double share = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = share * frequency + (1 - share) * frequency / factor;
  }
}

}  // namespace

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
  const json document = parse_json(text, path);
  std::vector<std::string> problems;
  ConfigFields fields(document, "", &problems);
  constexpr int64_t kMost = int64_t{1} << 24;
  shape.vocab_size = fields.required_int("vocab_size", {1, kMost});
  shape.hidden_size = fields.required_int("hidden_size", {1, kMost});
  shape.intermediate_size = fields.required_int("intermediate_size", {1, kMost});
  shape.num_hidden_layers = fields.required_int("num_hidden_layers", {1, 4096});
  shape.num_attention_heads = fields.required_int("num_attention_heads", {1, 65536});
  shape.num_key_value_heads =
      fields.optional_int("num_key_value_heads", {1, 65536}).value_or(shape.num_attention_heads);
  const int64_t heads = std::max<int64_t>(shape.num_attention_heads, 1);
  shape.head_dim = fields.optional_int("head_dim", {2, 65536}).value_or(shape.hidden_size / heads);
  shape.rms_norm_eps = fields.optional_number("rms_norm_eps", {0, 1, true}).value_or(1e-6);
  shape.rope_theta = fields.optional_number("rope_theta", {1, 1e12}).value_or(10000);
  shape.tied = fields.optional_bool("tie_word_embeddings").value_or(false);
  fields.require_one_of("hidden_act", {"silu"});
  if (fields.optional_bool("use_sliding_window").value_or(false)) {
    fields.problem("use_sliding_window", "sliding attention cannot be exported");
  }
  if (shape.num_key_value_heads > 0 && heads % shape.num_key_value_heads != 0) {
    fields.problem("num_key_value_heads", "{} heads do not share {} evenly", heads,
                   shape.num_key_value_heads);
  }
  for (int64_t i = 0; 2 * i < shape.head_dim; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_dim);
    shape.inverse_frequencies.push_back(pow_f64(shape.rope_theta, exponent));
  }
  if (const json* scaling = fields.value("rope_scaling"); scaling && scaling->is_object()) {
    const json kind = scaling->value("rope_type", scaling->value("type", json("default")));
    if (kind == "llama3") {
      scale_llama3(*scaling, &shape.inverse_frequencies, &problems);
    } else if (kind != "default") {
      fields.problem("rope_scaling", "type {} cannot be exported; llama3 can", shown(kind));
    }
  }
  if (!problems.empty()) fail_input("{}:\n  {}", path, join(problems, "\n  "));
  return shape;
}

}  // namespace fathom
