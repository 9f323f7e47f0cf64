#include "checkpoint/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/json_sax.h"
#include "base/log.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/packed_tensor.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr std::string_view kDeepseek = "DeepseekV3ForCausalLM";

// Far above any real model, and low enough that no product of two sizes leaves 64 bits and no list
// of expected tensors fills the memory.
constexpr int64_t kMostWidth = int64_t{1} << 20;
constexpr int64_t kMostVocabulary = int64_t{1} << 24;
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostExperts = 16384;
constexpr int64_t kMostExpertsInAll = int64_t{1} << 20;
constexpr int64_t kMostProduct = int64_t{1} << 28;  // rows of one matrix: heads times their size
constexpr int64_t kMostPositions = int64_t{1} << 30;
constexpr int64_t kMostTokenId = kMostVocabulary - 1;

json parse_object(std::string_view text, const std::string& path) {
  json document = parse_json(text, path);
  if (!document.is_object()) fail_input("{}: an object is expected, not {}", path, shown(document));
  return document;
}

std::string architecture_in(const json& document, const std::string& path) {
  const auto list = document.find("architectures");
  if (list == document.end() || list->is_null()) {
    fail_input("{}: there is no 'architectures' that says which model this is", path);
  }
  if (!list->is_array() || list->empty() || !list->front().is_string()) {
    fail_input("{}: architectures: a list of names is expected", path);
  }
  return list->front().get<std::string>();
}

void parse_rope(ConfigFields& fields, std::vector<std::string>* problems, DeepseekConfig* config) {
  const NumberRange theta_range{0, 1e12, true};
  config->rope_theta = fields.optional_number("rope_theta", theta_range).value_or(10000);
  // Newer exporters write rope_parameters, with rope_theta inside.
  const char* name = fields.value("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  const json* scaling = fields.value(name);
  if (scaling == nullptr) return;
  if (!scaling->is_object()) {
    fields.problem(name, "an object or null is expected, not {}", shown(*scaling));
    return;
  }
  ConfigFields rope(*scaling, std::string(name) + ".", problems);
  if (const auto theta = rope.optional_number("rope_theta", theta_range)) {
    config->rope_theta = *theta;
  }
  const std::optional<std::string> old_name = rope.optional_string("type");
  const std::optional<std::string> new_name = rope.optional_string("rope_type");
  if (old_name && new_name && *old_name != *new_name) {
    rope.problem("type", "{} contradicts rope_type {}", quoted_for_message(*old_name, 60),
                 quoted_for_message(*new_name, 60));
    return;
  }
  if (!old_name && !new_name) {
    if (rope.value("type") == nullptr && rope.value("rope_type") == nullptr) {
      rope.problem("type", "is missing");
    }
    return;
  }
  const std::string& type = old_name ? *old_name : *new_name;
  if (type == "default") return;
  RopeScaling& into = config->rope_scaling;
  if (type == "linear") {
    into.type = RopeType::linear;
  } else if (type == "dynamic") {
    into.type = RopeType::dynamic;
  } else if (type == "yarn") {
    into.type = RopeType::yarn;
  } else {
    rope.problem(old_name ? "type" : "rope_type",
                 "{} is not supported; supported: default, linear, dynamic, yarn",
                 quoted_for_message(type, 60));
    return;
  }
  into.factor = rope.required_number("factor", {1, 1e6});
  // The softmax scale heeds it whatever the type; the rest is yarn's own.
  into.mscale_all_dim = rope.optional_number("mscale_all_dim", {0, 1e3}).value_or(0);
  if (into.type != RopeType::yarn) return;
  into.original_max_position_embeddings =
      rope.required_int("original_max_position_embeddings", {1, kMostPositions});
  into.beta_fast = rope.optional_number("beta_fast", {0, 1e6, true}).value_or(32);
  into.beta_slow = rope.optional_number("beta_slow", {0, 1e6, true}).value_or(1);
  into.mscale = rope.optional_number("mscale", {0, 1e3}).value_or(1);
  if (config->rope_theta == 1) {
    fields.problem("rope_theta", "1 gives yarn nothing to scale: all frequencies are the same");
  }
  if (into.beta_fast < into.beta_slow) {
    rope.problem("beta_fast", "{} is below beta_slow {}", into.beta_fast, into.beta_slow);
  }
}

void parse_quantization(ConfigFields& fields, std::vector<std::string>* problems,
                        DeepseekConfig* config) {
  const json* given = fields.value("quantization_config");
  if (given == nullptr) return;
  if (!given->is_object()) {
    fields.problem("quantization_config", "an object or null is expected, not {}", shown(*given));
    return;
  }
  ConfigFields quantization(*given, "quantization_config.", problems);
  const std::optional<std::string> method = quantization.optional_string("quant_method");
  if (!method) {
    if (quantization.value("quant_method") == nullptr) {
      quantization.problem("quant_method", "is missing");
    }
    return;
  }
  // Other methods have other fields; what they lack would only hide the one real problem.
  quantization.require_one_of("quant_method", {"fp8", std::string(kPackedMethod)});
  // What is packed says so by its dtype and shape; FP8 beside it needs its blocks as ever.
  if (*method == kPackedMethod && !quantization.has("weight_block_size")) return;
  if (*method != "fp8" && *method != kPackedMethod) return;
  quantization.require_one_of("fmt", {"e4m3"});
  const json* block = quantization.value("weight_block_size");
  if (block == nullptr) {
    quantization.problem("weight_block_size",
                         "is missing; FP8 with one scale per tensor is not supported");
    return;
  }
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() >= 1 &&
           size.get<uint64_t>() <= static_cast<uint64_t>(kMostWidth);
  };
  if (!block->is_array() || block->size() != 2 || !is_size((*block)[0]) || !is_size((*block)[1])) {
    quantization.problem("weight_block_size",
                         "a list of two whole numbers between 1 and {} is expected", kMostWidth);
    return;
  }
  config->weight_block_rows = (*block)[0].get<int64_t>();
  config->weight_block_cols = (*block)[1].get<int64_t>();
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

[[noreturn]] void fail_fields(const std::string& path, const std::vector<std::string>& problems) {
  if (problems.size() == 1) fail_input("{}: {}", path, problems.front());
  fail_input("{}: {} fields are wrong:\n  {}", path, problems.size(), join(problems, "\n  "));
}

void check_architecture(const std::string& name, const std::string& path) {
  if (name == kDeepseek) return;
  const bool planned = name == "Qwen2ForCausalLM" || name == "LlamaForCausalLM";
  fail_input("{}: architectures: {} is not supported{} by this version; supported: {}", path,
             quoted_for_message(name, 80), planned ? " yet" : "", kDeepseek);
}

}  // namespace

std::string architecture_of(std::string_view text, const std::string& path) {
  return architecture_in(parse_object(text, path), path);
}

DeepseekConfig parse_deepseek_config(std::string_view text, const std::string& path) {
  const json document = parse_object(text, path);
  check_architecture(architecture_in(document, path), path);

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
  parse_rope(fields, &problems, &config);
  parse_quantization(fields, &problems, &config);
  check_products(fields, config);
  if (!problems.empty()) fail_fields(path, problems);

  if (config.ep_size > 1) {
    log::warning(
        "{}: ep_size {} (experts spread over processes) means nothing here: all experts are "
        "loaded by this process",
        path, config.ep_size);
  }
  return config;
}

GenerationConfig parse_generation_config(std::string_view text, const std::string& path) {
  const json document = parse_object(text, path);
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
  if (!problems.empty()) fail_fields(path, problems);
  return config;
}

}  // namespace fathom
