#include "checkpoint/config_parts.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/join.h"
#include "base/json.h"
#include "base/json_sax.h"
#include "checkpoint/config_limits.h"
#include "checkpoint/packed_tensor.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr std::pair<RopeType, std::string_view> kRopeTypes[] = {{RopeType::none, "default"},
                                                                {RopeType::linear, "linear"},
                                                                {RopeType::dynamic, "dynamic"},
                                                                {RopeType::yarn, "yarn"},
                                                                {RopeType::llama3, "llama3"}};

}  // namespace

json parse_config_object(std::string_view text, const std::string& path) {
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

void fail_fields_if_any(const std::string& path, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  if (problems.size() == 1) fail_input("{}: {}", path, problems.front());
  fail_input("{}: {} fields are wrong:\n  {}", path, problems.size(), join(problems, "\n  "));
}

std::pair<const json*, std::string> rope_object(ConfigFields& fields) {
  const char* name = fields.value("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  return {fields.value(name), name};
}

std::string_view rope_type_name(RopeType type) {
  for (const auto& [known, name] : kRopeTypes) {
    if (known == type) return name;
  }
  return "default";
}

RopeFields parse_rope(ConfigFields& fields, std::vector<std::string>* problems,
                      const std::vector<RopeType>& supported) {
  RopeFields result;
  const NumberRange theta_range{0, 1e12, true};
  result.theta = fields.optional_number("rope_theta", theta_range).value_or(10000);
  const auto [scaling, name] = rope_object(fields);
  if (scaling == nullptr) return result;
  if (!scaling->is_object()) {
    fields.problem(name, "an object or null is expected, not {}", shown(*scaling));
    return result;
  }
  ConfigFields rope(*scaling, name + ".", problems);
  if (const auto theta = rope.optional_number("rope_theta", theta_range)) result.theta = *theta;
  const std::optional<std::string> old_name = rope.optional_string("type");
  const std::optional<std::string> new_name = rope.optional_string("rope_type");
  if (old_name && new_name && *old_name != *new_name) {
    rope.problem("type", "{} contradicts rope_type {}", quoted_for_message(*old_name, 60),
                 quoted_for_message(*new_name, 60));
    return result;
  }
  if (!old_name && !new_name) {
    if (rope.value("type") == nullptr && rope.value("rope_type") == nullptr) {
      rope.problem("type", "is missing");
    }
    return result;
  }
  const std::string& type = old_name ? *old_name : *new_name;
  if (type == "default") return result;
  RopeScaling& into = result.scaling;
  for (const RopeType known : supported) {
    if (rope_type_name(known) == type) into.type = known;
  }
  if (into.type == RopeType::none) {
    std::string names = "default";
    for (const RopeType known : supported) names += fmt::format(", {}", rope_type_name(known));
    rope.problem(old_name ? "type" : "rope_type", "{} is not supported; supported: {}",
                 quoted_for_message(type, 60), names);
    return result;
  }
  into.factor = rope.required_number("factor", {1, 1e6});
  if (into.type == RopeType::yarn || into.type == RopeType::llama3) {
    into.original_max_position_embeddings =
        rope.required_int("original_max_position_embeddings", {1, kMostPositions});
  }
  if (into.type == RopeType::llama3) {
    into.low_freq_factor = rope.required_number("low_freq_factor", {0, 1e6, true});
    into.high_freq_factor = rope.required_number("high_freq_factor", {0, 1e6, true});
    if (into.high_freq_factor <= into.low_freq_factor && into.high_freq_factor > 0) {
      rope.problem("high_freq_factor", "{} is not above low_freq_factor {}", into.high_freq_factor,
                   into.low_freq_factor);
    }
  }
  if (into.type != RopeType::yarn) return result;
  into.beta_fast = rope.optional_number("beta_fast", {0, 1e6, true}).value_or(32);
  into.beta_slow = rope.optional_number("beta_slow", {0, 1e6, true}).value_or(1);
  if (result.theta == 1) {
    fields.problem("rope_theta", "1 gives yarn nothing to scale: all frequencies are the same");
  }
  if (into.beta_fast < into.beta_slow) {
    rope.problem("beta_fast", "{} is below beta_slow {}", into.beta_fast, into.beta_slow);
  }
  return result;
}

std::pair<int64_t, int64_t> parse_weight_blocks(ConfigFields& fields,
                                                std::vector<std::string>* problems) {
  const json* given = fields.value("quantization_config");
  if (given == nullptr) return {0, 0};
  if (!given->is_object()) {
    fields.problem("quantization_config", "an object or null is expected, not {}", shown(*given));
    return {0, 0};
  }
  ConfigFields quantization(*given, "quantization_config.", problems);
  const std::optional<std::string> method = quantization.optional_string("quant_method");
  if (!method) {
    if (quantization.value("quant_method") == nullptr) {
      quantization.problem("quant_method", "is missing");
    }
    return {0, 0};
  }
  // Other methods have other fields; what they lack would only hide the one real problem.
  quantization.require_one_of("quant_method", {"fp8", std::string(kPackedMethod)});
  // What is packed says so by its dtype and shape; FP8 beside it needs its blocks as ever.
  if (*method == kPackedMethod && !quantization.has("weight_block_size")) return {0, 0};
  if (*method != "fp8" && *method != kPackedMethod) return {0, 0};
  quantization.require_one_of("fmt", {"e4m3"});
  const json* block = quantization.value("weight_block_size");
  if (block == nullptr) {
    quantization.problem("weight_block_size",
                         "is missing; FP8 with one scale per tensor is not supported");
    return {0, 0};
  }
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() >= 1 &&
           size.get<uint64_t>() <= static_cast<uint64_t>(kMostWidth);
  };
  if (!block->is_array() || block->size() != 2 || !is_size((*block)[0]) || !is_size((*block)[1])) {
    quantization.problem("weight_block_size",
                         "a list of two whole numbers between 1 and {} is expected", kMostWidth);
    return {0, 0};
  }
  return {(*block)[0].get<int64_t>(), (*block)[1].get<int64_t>()};
}

}  // namespace fathom
