#include "checkpoint/dense_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json_sax.h"
#include "checkpoint/config_limits.h"
#include "checkpoint/config_parts.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr std::string_view kQwen2 = "Qwen2ForCausalLM";
constexpr std::string_view kLlama = "LlamaForCausalLM";
constexpr std::string_view kQwen3 = "Qwen3ForCausalLM";

void parse_heads(ConfigFields& fields, DenseConfig* config) {
  const int64_t heads = config->num_attention_heads;
  config->num_key_value_heads =
      fields.optional_int("num_key_value_heads", {1, 65536}).value_or(heads);
  if (heads > 0 && heads % config->num_key_value_heads != 0) {
    fields.problem("num_attention_heads", "{} cannot be divided among num_key_value_heads = {}",
                   heads, config->num_key_value_heads);
  }
  if (const auto given = fields.optional_int("head_dim", {2, kMostWidth})) {
    config->head_dim = *given;
  } else if (config->architecture == kQwen3) {
    config->head_dim = 128;
  } else if (heads > 0 && config->hidden_size > 0) {
    config->head_dim = config->hidden_size / heads;
    if (config->hidden_size % heads != 0 || config->head_dim < 2) {
      fields.problem("head_dim", "is missing, and hidden_size {} cannot be divided among {} heads",
                     config->hidden_size, heads);
    }
  }
  if (config->head_dim % 2 != 0) {
    fields.problem("head_dim", "{} is odd; RoPE turns pairs", config->head_dim);
  }
  if (heads * config->head_dim > kMostProduct) {
    fields.problem("num_attention_heads", "{} heads of {} rows are more than {} rows", heads,
                   config->head_dim, kMostProduct);
  }
}

void parse_biases(ConfigFields& fields, DenseConfig* config) {
  const bool given = fields.optional_bool("attention_bias").value_or(false);
  // Qwen2's class has these biases whatever the config says.
  config->qkv_bias = config->architecture == kQwen2 || given;
  config->o_bias = config->architecture != kQwen2 && given;
  if (fields.optional_bool("mlp_bias").value_or(false)) {
    fields.problem("mlp_bias", "true is not supported");
  }
}

// Attention to a window of positions only is another model; released R1 models do not have it.
void refuse_windows(ConfigFields& fields, const DenseConfig& config) {
  if (config.architecture != kLlama && fields.optional_bool("use_sliding_window").value_or(false)) {
    fields.problem("use_sliding_window", "true is not supported: attention to all positions only");
  }
  const json* layers = fields.value("layer_types");
  if (layers == nullptr) return;
  if (!layers->is_array()) {
    fields.problem("layer_types", "a list is expected, not {}", shown(*layers));
    return;
  }
  for (const json& type : *layers) {
    if (type == "full_attention") continue;
    fields.problem("layer_types", "{} is not supported; supported: full_attention", shown(type));
    return;
  }
}

// What cosine and sine are multiplied with. attention_factor says it; attn_factor, which other
// programs write, is a factor of yarn's own.
void parse_attention_factor(ConfigFields& fields, std::vector<std::string>* problems,
                            DenseConfig* config) {
  const RopeScaling& scaling = config->rope_scaling;
  if (scaling.type != RopeType::yarn) return;
  const auto [object, name] = rope_object(fields);
  ConfigFields rope(*object, name + ".", problems);
  const NumberRange range{0, 1e3, true};
  const auto whole = rope.optional_number("attention_factor", range);
  const auto part = rope.optional_number("attn_factor", range);
  const double mscale = rope.optional_number("mscale", {0, 1e3}).value_or(0);
  const double all_dim = rope.optional_number("mscale_all_dim", {0, 1e3}).value_or(0);
  const auto grown = [&scaling](double m) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * m * log_f64(scaling.factor) + 1.0;
  };
  const double own = mscale != 0 && all_dim != 0 ? grown(mscale) / grown(all_dim) : grown(1);
  config->rope_attention_factor = whole ? *whole : own * part.value_or(1);
}

}  // namespace

bool is_dense_architecture(std::string_view name) {
  return name == kQwen2 || name == kLlama || name == kQwen3;
}

DenseConfig parse_dense_config(std::string_view text, const std::string& path) {
  const json document = parse_config_object(text, path);
  DenseConfig config;
  config.architecture = architecture_in(document, path);
  if (!is_dense_architecture(config.architecture)) {
    fail_input("{}: architectures: {} is none of {}, {}, {}", path,
               quoted_for_message(config.architecture, 80), kQwen2, kLlama, kQwen3);
  }
  std::vector<std::string> problems;
  ConfigFields fields(document, "", &problems);
  config.vocab_size = fields.required_int("vocab_size", {1, kMostVocabulary});
  config.hidden_size = fields.required_int("hidden_size", {1, kMostWidth});
  config.intermediate_size = fields.required_int("intermediate_size", {1, kMostWidth});
  config.num_hidden_layers = fields.required_int("num_hidden_layers", {1, kMostLayers});
  config.num_attention_heads = fields.required_int("num_attention_heads", {1, 65536});
  config.max_position_embeddings =
      fields.required_int("max_position_embeddings", {1, kMostPositions});
  config.rms_norm_eps = fields.optional_number("rms_norm_eps", {0, 1, true}).value_or(1e-6);
  config.tie_word_embeddings = fields.optional_bool("tie_word_embeddings").value_or(false);
  config.qk_norm = config.architecture == kQwen3;
  fields.require_one_of("hidden_act", {"silu"});
  parse_heads(fields, &config);
  parse_biases(fields, &config);
  refuse_windows(fields, config);
  const RopeFields rope = parse_rope(
      fields, &problems, {RopeType::linear, RopeType::dynamic, RopeType::yarn, RopeType::llama3});
  config.rope_theta = rope.theta;
  config.rope_scaling = rope.scaling;
  parse_attention_factor(fields, &problems, &config);
  if (fields.optional_number("partial_rotary_factor", {0, 1}).value_or(1) != 1) {
    fields.problem("partial_rotary_factor", "a part of a head is not supported; supported: 1");
  }
  if (config.rope_scaling.type == RopeType::dynamic && config.head_dim == 2) {
    fields.problem("head_dim", "2 leaves dynamic RoPE scaling nothing to scale");
  }
  std::tie(config.weight_block_rows, config.weight_block_cols) =
      parse_weight_blocks(fields, &problems);
  fail_fields_if_any(path, problems);
  return config;
}

}  // namespace fathom
