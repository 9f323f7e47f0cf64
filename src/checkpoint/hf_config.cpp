#include "checkpoint/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json_sax.h"
#include "base/log.h"
#include "checkpoint/config_limits.h"
#include "checkpoint/config_parts.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr std::string_view kDeepseek = "DeepseekV3ForCausalLM";

// The scaling's own fields of this architecture.
void parse_mscale(ConfigFields& fields, std::vector<std::string>* problems, RopeScaling* into) {
  if (into->type == RopeType::none) return;
  const auto [scaling, name] = rope_object(fields);
  ConfigFields rope(*scaling, name + ".", problems);
  // The softmax scale heeds it whatever the type; the other is yarn's own.
  into->mscale_all_dim = rope.optional_number("mscale_all_dim", {0, 1e3}).value_or(0);
  if (into->type == RopeType::yarn) {
    into->mscale = rope.optional_number("mscale", {0, 1e3}).value_or(1);
  }
}

void parse_experts(ConfigFields& fields, DeepseekConfig* config) {
  config->n_routed_experts = fields.optional_int("n_routed_experts", {0, kMostExperts}).value_or(0);
  config->n_shared_experts = fields.optional_int("n_shared_experts", {0, 1024}).value_or(0);
  // null means none; left out, a model with shared experts would be run without them.
  if (config->n_routed_experts > 0 && !fields.has("n_shared_experts")) {
    fields.problem("n_shared_experts", "is missing; a number, or null for none");
  }
  config->first_k_dense_replace =
      fields.optional_int("first_k_dense_replace", {0, kMostLayers}).value_or(0);
  config->moe_layer_freq = fields.optional_int("moe_layer_freq", {1, kMostLayers}).value_or(1);
  fields.require_one_of("scoring_func", {"sigmoid"});
  fields.require_one_of("topk_method", {"noaux_tc"});
  if (config->n_routed_experts == 0) return;

  config->moe_intermediate_size = fields.required_int("moe_intermediate_size", {1, kMostWidth});
  config->num_experts_per_tok =
      fields.required_int("num_experts_per_tok", {1, config->n_routed_experts});
  config->n_group = fields.required_int("n_group", {1, config->n_routed_experts});
  config->topk_group = fields.required_int("topk_group", {1, config->n_routed_experts});
  config->norm_topk_prob = fields.optional_bool("norm_topk_prob").value_or(true);
  config->routed_scaling_factor = fields.required_number("routed_scaling_factor", {0, 1e6, true});
  if (config->num_experts_per_tok == 0 || config->n_group == 0 || config->topk_group == 0) return;

  if (config->n_routed_experts % config->n_group != 0) {
    fields.problem("n_routed_experts", "{} cannot be divided into n_group = {} equal groups",
                   config->n_routed_experts, config->n_group);
    return;
  }
  const int64_t in_group = config->n_routed_experts / config->n_group;
  if (in_group < 2) {
    fields.problem("n_group", "{} leaves one expert to a group, which is scored by its best two",
                   config->n_group);
  }
  if (config->topk_group > config->n_group) {
    fields.problem("topk_group", "{} is more than n_group = {}", config->topk_group,
                   config->n_group);
  } else if (config->num_experts_per_tok > config->topk_group * in_group) {
    fields.problem("num_experts_per_tok",
                   "{} is more than the {} experts in topk_group = {} groups",
                   config->num_experts_per_tok, config->topk_group * in_group, config->topk_group);
  }
}

// Sizes that are each in range but too large together.
void check_products(ConfigFields& fields, const DeepseekConfig& config) {
  const int64_t heads = config.num_attention_heads;
  const int64_t head_rows =
      std::max(config.qk_head_dim(), config.qk_nope_head_dim + config.v_head_dim);
  if (heads * head_rows > kMostProduct) {
    fields.problem("num_attention_heads", "{} heads of up to {} rows are more than {} rows", heads,
                   head_rows, kMostProduct);
  }
  if (config.n_shared_experts * config.moe_intermediate_size > kMostProduct) {
    fields.problem("n_shared_experts", "{} times moe_intermediate_size {} is more than {}",
                   config.n_shared_experts, config.moe_intermediate_size, kMostProduct);
  }
  if (config.n_routed_experts * config.num_hidden_layers > kMostExpertsInAll) {
    fields.problem("n_routed_experts", "{} times num_hidden_layers {} is more than {}",
                   config.n_routed_experts, config.num_hidden_layers, kMostExpertsInAll);
  }
}

}  // namespace

std::string architecture_of(std::string_view text, const std::string& path) {
  return architecture_in(parse_config_object(text, path), path);
}

DeepseekConfig parse_deepseek_config(std::string_view text, const std::string& path) {
  const json document = parse_config_object(text, path);
  if (const std::string name = architecture_in(document, path); name != kDeepseek) {
    fail_input("{}: architectures: {} is not {}", path, quoted_for_message(name, 80), kDeepseek);
  }
  std::vector<std::string> problems;
  ConfigFields fields(document, "", &problems);
  DeepseekConfig config;
  config.vocab_size = fields.required_int("vocab_size", {1, kMostVocabulary});
  config.hidden_size = fields.required_int("hidden_size", {1, kMostWidth});
  config.num_hidden_layers = fields.required_int("num_hidden_layers", {1, kMostLayers});
  config.num_nextn_predict_layers =
      fields.optional_int("num_nextn_predict_layers", {0, 16}).value_or(0);
  config.num_attention_heads = fields.required_int("num_attention_heads", {1, 65536});
  config.kv_lora_rank = fields.required_int("kv_lora_rank", {1, kMostWidth});
  config.qk_nope_head_dim = fields.required_int("qk_nope_head_dim", {1, kMostWidth});
  config.qk_rope_head_dim = fields.required_int("qk_rope_head_dim", {2, kMostWidth});
  config.v_head_dim = fields.required_int("v_head_dim", {1, kMostWidth});
  config.max_position_embeddings =
      fields.required_int("max_position_embeddings", {1, kMostPositions});
  config.attention_bias = fields.optional_bool("attention_bias").value_or(false);
  config.tie_word_embeddings = fields.optional_bool("tie_word_embeddings").value_or(false);
  config.rms_norm_eps = fields.optional_number("rms_norm_eps", {0, 1, true}).value_or(1e-6);
  config.ep_size = fields.optional_int("ep_size", {1, kMostExperts}).value_or(1);
  // null has a meaning here (a single q_proj), so leaving the field out is not the same.
  if (fields.has("q_lora_rank")) {
    config.q_lora_rank = fields.optional_int("q_lora_rank", {1, kMostWidth});
  } else {
    fields.problem("q_lora_rank", "is missing; a number, or null for a single q_proj");
  }
  if (config.qk_rope_head_dim % 2 != 0) {
    fields.problem("qk_rope_head_dim", "{} is odd; RoPE turns pairs", config.qk_rope_head_dim);
  }
  fields.require_one_of("hidden_act", {"silu"});
  parse_experts(fields, &config);
  bool any_dense = false;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    any_dense |= !config.is_moe_layer(layer);
  }
  const IntRange width{1, kMostWidth};
  config.intermediate_size = any_dense
                                 ? fields.required_int("intermediate_size", width)
                                 : fields.optional_int("intermediate_size", width).value_or(0);
  const RopeFields rope =
      parse_rope(fields, &problems, {RopeType::linear, RopeType::dynamic, RopeType::yarn});
  config.rope_theta = rope.theta;
  config.rope_scaling = rope.scaling;
  parse_mscale(fields, &problems, &config.rope_scaling);
  std::tie(config.weight_block_rows, config.weight_block_cols) =
      parse_weight_blocks(fields, &problems);
  check_products(fields, config);
  fail_fields_if_any(path, problems);

  if (config.ep_size > 1) {
    log::warning(
        "{}: ep_size {} (experts spread over processes) means nothing here: all experts are "
        "loaded by this process",
        path, config.ep_size);
  }
  return config;
}

GenerationConfig parse_generation_config(std::string_view text, const std::string& path) {
  const json document = parse_config_object(text, path);
  std::vector<std::string> problems;
  ConfigFields fields(document, "", &problems);
  GenerationConfig config;
  config.do_sample = fields.optional_bool("do_sample");
  config.temperature = fields.optional_number("temperature", {0, 1e6});
  config.top_p = fields.optional_number("top_p", {0, 1});
  config.top_k = fields.optional_int("top_k", {-1, kMostVocabulary});
  if (config.top_k == -1) config.top_k = 0;  // both are written for "no limit"
  config.min_p = fields.optional_number("min_p", {0, 1});
  config.repetition_penalty = fields.optional_number("repetition_penalty", {0, 1e6, true});
  config.bos_token_id = fields.optional_int("bos_token_id", {0, kMostTokenId});
  const json* eos = fields.value("eos_token_id");
  if (eos != nullptr && eos->is_array()) {
    for (const json& id : *eos) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(kMostTokenId)) {
        fields.problem("eos_token_id", "token ids from 0 to {} are expected, not {}", kMostTokenId,
                       shown(id));
        break;
      }
      config.eos_token_ids.push_back(id.get<int64_t>());
    }
  } else if (const auto id = fields.optional_int("eos_token_id", {0, kMostTokenId})) {
    config.eos_token_ids.push_back(*id);
  }
  fail_fields_if_any(path, problems);
  return config;
}

}  // namespace fathom
