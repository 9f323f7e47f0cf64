#include "graph/qnn_options.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/join.h"

namespace fathom {
namespace {

struct QnnOption {
  const char* key;
  std::vector<std::string> values;  // empty: see `kind`
  enum Kind { choice, text, number } kind = choice;
};

const std::vector<QnnOption>& known() {
  static const std::vector<std::string> kSwitch = {"0", "1"};
  static const std::vector<QnnOption> kOptions = {
      {"backend_path", {}, QnnOption::text},
      {"backend_type", {"cpu", "gpu", "htp", "saver", "ir"}},
      {"htp_performance_mode",
       {"burst", "sustained_high_performance", "high_performance", "balanced", "low_balanced",
        "high_power_saver", "power_saver", "low_power_saver", "extreme_power_saver", "default"}},
      {"soc_model", {}, QnnOption::number},
      {"htp_arch", {"68", "69", "73", "75", "79", "81"}},
      {"htp_graph_finalization_optimization_mode", {"0", "1", "2", "3"}},
      {"profiling_level", {"off", "basic", "detailed", "optrace"}},
      {"profiling_file_path", {}, QnnOption::text},
      {"qnn_context_priority", {"low", "normal", "normal_high", "high"}},
      {"vtcm_mb", {}, QnnOption::number},
      {"device_id", {}, QnnOption::number},
      {"rpc_control_latency", {}, QnnOption::number},
      {"enable_htp_fp16_precision", kSwitch},
      {"offload_graph_io_quantization", kSwitch},
      {"enable_htp_shared_memory_allocator", kSwitch},
      {"enable_htp_spill_fill_buffer", kSwitch},
  };
  return kOptions;
}

std::string allowed(const QnnOption& option) {
  switch (option.kind) {
    case QnnOption::text:
      return "a path";
    case QnnOption::number:
      return "a whole number from 0";
    case QnnOption::choice:
      break;
  }
  return join(option.values, ", ");
}

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

const std::vector<SnapdragonChip> kChips = {
    {43, "Snapdragon 8 Gen 2 (SM8550)", 73}, {57, "Snapdragon 8 Gen 3 (SM8650)", 75},
    {60, "Snapdragon X Elite", 73},          {69, "Snapdragon 8 Elite (SM8750)", 79},
    {87, "Snapdragon SM8850", 81},           {97, "Snapdragon SM8845", 81},
    {88, "Snapdragon X2 Elite", 81},
};

}  // namespace

void check_qnn_option(const std::string& key, const std::string& value, const std::string& where) {
  const auto option = std::find_if(known().begin(), known().end(),
                                   [&key](const QnnOption& o) { return key == o.key; });
  if (option == known().end()) {
    std::vector<std::string> keys;
    for (const QnnOption& o : known()) keys.emplace_back(o.key);
    fail_usage("{}: the QNN provider has no option '{}'; it has {}", where, key, join(keys, ", "));
  }
  bool right = false;
  switch (option->kind) {
    case QnnOption::text:
      right = !value.empty();
      break;
    case QnnOption::number:
      right = whole_number(value).has_value();
      break;
    case QnnOption::choice:
      right =
          std::find(option->values.begin(), option->values.end(), value) != option->values.end();
      break;
  }
  if (!right)
    fail_usage("{}: {}: '{}' is not {}{}", where, key, value,
               option->kind == QnnOption::choice ? "one of " : "", allowed(*option));
}

std::pair<std::string, std::string> parse_qnn_option(const std::string& text,
                                                     const std::string& where) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail_usage("{}: '{}' is not key=value", where, text);
  }
  std::pair<std::string, std::string> option(text.substr(0, equals), text.substr(equals + 1));
  check_qnn_option(option.first, option.second, where);
  return option;
}

void check_qnn_options(const GraphOptions& options, const std::string& where) {
  for (const auto& [key, value] : options) check_qnn_option(key, value, where);
  if (options.contains("backend_path") && options.contains("backend_type")) {
    fail_usage("{}: backend_path and backend_type exclude each other", where);
  }
}

std::string qnn_options_help() {
  std::string text;
  for (const QnnOption& option : known()) {
    text += std::string("  ") + option.key + ": " + allowed(option) + "\n";
  }
  return text;
}

const SnapdragonChip* chip_of(int soc_model) {
  for (const SnapdragonChip& chip : kChips) {
    if (chip.soc_model == soc_model) return &chip;
  }
  return nullptr;
}

std::optional<int> wanted_arch(const GraphOptions& options, const std::string& where) {
  std::optional<int> arch;
  if (const auto at = options.find("htp_arch"); at != options.end()) {
    arch = whole_number(at->second);
  }
  const auto soc = options.find("soc_model");
  if (soc == options.end()) return arch;
  const SnapdragonChip* chip = chip_of(whole_number(soc->second).value_or(-1));
  if (chip == nullptr) return arch;
  if (arch && *arch != chip->htp_arch) {
    fail_usage("{}: soc_model {} is {} with Hexagon v{}, but htp_arch is {}", where,
               chip->soc_model, chip->name, chip->htp_arch, *arch);
  }
  return chip->htp_arch;
}

}  // namespace fathom
