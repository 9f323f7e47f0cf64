#include "checkpoint/inspection.h"

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_sax.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/model_tensors.h"

namespace fathom {
namespace {

using nlohmann::json;

constexpr uint64_t kMostConfigBytes = uint64_t{16} << 20;

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> whole_number(const json& object, const char* name) {
  const json* value = member(object, name);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) {
    return std::nullopt;
  }
  return value->get<int64_t>();
}

std::string text_of(const json& object, const char* name) {
  const json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

// The first of several names that different architectures use for one thing.
std::optional<int64_t> first_of(const json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = whole_number(object, name)) return value;
  }
  return std::nullopt;
}

class Inspector {
 public:
  Inspector(const std::string& folder, const TokenizerFacts& tokenizer) {
    result_.folder = resolve_model_folder(folder);
    result_.tokenizer = tokenizer;
  }

  Inspection run() {
    result_.name = model_name();
    read_config();
    read_generation_config();
    read_tokenizer_facts();
    read_model_card();
    result_.scan = scan_headers(result_.folder);
    const std::vector<TensorInfo>& tensors = result_.scan.tensors;
    const NameReader names(tensors);
    result_.stack = names.stack();
    result_.inventory = take_inventory(result_.folder);
    result_.dtypes = census_by_dtype(tensors);
    result_.families = census_by_family(tensors);
    result_.tree = module_tree(tensors);
    result_.accounting = account(result_.scan, names, result_.config.layers);
    result_.experts = place_experts(result_.scan, names);
    const ConfigFacts& config = result_.config;
    result_.activated = result_.accounting.activated(config.experts_per_token.value_or(0),
                                                     config.experts.value_or(0));
    add_problems(result_.scan.problems);
    add_problems(result_.inventory.problems);
    if (result_.config.model) compare_with_config(*result_.config.model);
    result_.traps = find_traps(result_);
    return std::move(result_);
  }

 private:
  std::string path_of(const char* name) const { return result_.folder + "/" + name; }

  void add_problems(const std::vector<std::string>& more) {
    result_.problems.insert(result_.problems.end(), more.begin(), more.end());
  }

  // The folder's own name; of a snapshot in the hub's cache, the model's.
  std::string model_name() const {
    namespace fs = std::filesystem;
    fs::path path = fs::absolute(result_.folder).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    if (path.parent_path().filename() != "snapshots") return path.filename().string();
    std::string name = path.parent_path().parent_path().filename().string();
    if (name.starts_with("models--")) name.erase(0, 8);
    if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
    return name;
  }

  // A small JSON file; a null where it is missing or wrong, which is a problem then.
  json read_json(const char* name) {
    const std::string path = path_of(name);
    if (!path_exists(path)) return nullptr;
    try {
      return parse_json(read_text(path, kMostConfigBytes), path);
    } catch (const Error& error) {
      result_.problems.push_back(error.what());
      return nullptr;
    }
  }

  void read_config() {
    ConfigFacts& facts = result_.config;
    const json config = read_json("config.json");
    if (!config.is_object()) {
      if (!path_exists(path_of("config.json"))) {
        result_.problems.push_back(path_of("config.json") + ": is missing");
      }
      return;
    }
    facts.present = true;
    if (const json* list = member(config, "architectures")) {
      if (list->is_array() && !list->empty() && list->front().is_string()) {
        facts.architecture = list->front().get<std::string>();
      }
    }
    // Models of several senses keep the decoder's part below.
    const json* nested = member(config, "text_config");
    const json& text =
        nested != nullptr && nested->is_object() && !whole_number(config, "num_hidden_layers")
            ? *nested
            : config;
    facts.model_type = text_of(config, "model_type");
    facts.dtype = text_of(config, "torch_dtype");
    if (facts.dtype.empty()) facts.dtype = text_of(config, "dtype");
    facts.layers = first_of(text, {"num_hidden_layers", "n_layer", "num_layers"});
    facts.mtp_layers = whole_number(text, "num_nextn_predict_layers");
    facts.hidden_size = first_of(text, {"hidden_size", "n_embd"});
    facts.vocab_size = whole_number(text, "vocab_size");
    facts.experts = first_of(text, {"n_routed_experts", "num_local_experts", "num_experts"});
    facts.experts_per_token = first_of(text, {"num_experts_per_tok", "num_experts_per_token"});
    facts.context = first_of(text, {"max_position_embeddings", "n_positions", "n_ctx"});
    const json* tied = member(text, "tie_word_embeddings");
    facts.tied = tied != nullptr && tied->is_boolean() && tied->get<bool>();
    if (const json* quantisation = member(config, "quantization_config")) {
      facts.quantisation = text_of(*quantisation, "quant_method");
      const json* block = member(*quantisation, "weight_block_size");
      if (block != nullptr && block->is_array() && block->size() == 2 &&
          block->at(0).is_number_unsigned() && block->at(1).is_number_unsigned() &&
          block->at(0) > 0 && block->at(1) > 0) {
        facts.block_rows = block->at(0).get<int64_t>();
        facts.block_cols = block->at(1).get<int64_t>();
      }
    }
    if (facts.context) {
      result_.contexts.push_back({"config.json", "max_position_embeddings", *facts.context});
    }
    add_tokens("config.json", config);
    if (!is_supported_architecture(facts.architecture)) return;
    try {
      facts.model = parse_model_config(config.dump(), path_of("config.json"));
    } catch (const Error& error) {
      result_.problems.push_back(error.what());
    }
  }

  // "bos_token_id" and the like: a number or a list.
  void add_tokens(const char* file, const json& object) {
    for (const char* role : {"bos", "eos", "pad", "decoder_start"}) {
      const std::string field = std::string(role) + "_token_id";
      const json* value = member(object, field.c_str());
      if (value == nullptr) continue;
      const json list = value->is_array() ? *value : json::array({*value});
      for (const json& id : list) {
        if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{INT64_MAX}) continue;
        result_.special_tokens.push_back({role, "", id.get<int64_t>(), file});
      }
    }
  }

  void read_generation_config() {
    const json config = read_json("generation_config.json");
    if (config.is_object()) add_tokens("generation_config.json", config);
  }

  void read_tokenizer_facts() {
    const TokenizerFacts& facts = result_.tokenizer;
    if (!facts.problem.empty()) result_.problems.push_back(facts.problem);
    for (const SpecialToken& token : facts.tokens) result_.special_tokens.push_back(token);
    if (facts.model_max_length) {
      result_.contexts.push_back(
          {"tokenizer_config.json", "model_max_length", *facts.model_max_length});
    } else if (!facts.present) {
      // Without a tokenizer that can be read, its length may still be.
      const json config = read_json("tokenizer_config.json");
      if (const auto length = whole_number(config, "model_max_length")) {
        result_.contexts.push_back({"tokenizer_config.json", "model_max_length", *length});
      }
    }
  }

  // "Context Length ... 128K" of a model card: the first number of thousands after the words.
  void read_model_card() {
    const std::string path = path_of("README.md");
    if (!path_exists(path)) return;
    std::string card;
    try {
      card = read_text(path, kMostConfigBytes);
    } catch (const Error& error) {
      result_.problems.push_back(error.what());
      return;
    }
    constexpr size_t kReach = 1000;
    for (char& c : card) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const size_t words = card.find("context length");
    if (words == std::string::npos) return;
    const size_t end = std::min(card.size(), words + kReach);
    for (size_t i = words; i < end; ++i) {
      if (!std::isdigit(static_cast<unsigned char>(card[i]))) continue;
      size_t last = i;
      while (last < end && std::isdigit(static_cast<unsigned char>(card[last]))) ++last;
      const bool thousands = last < end && card[last] == 'k' && last - i <= 6;
      const bool alone =
          last + 1 >= card.size() || !std::isalnum(static_cast<unsigned char>(card[last + 1]));
      if (thousands && alone) {
        const int64_t tokens = std::stoll(card.substr(i, last - i)) * 1024;
        result_.contexts.push_back({"README.md", "context length", tokens});
        return;
      }
      i = last;
    }
  }

  void compare_with_config(const ModelConfig& config) {
    std::vector<Shard> no_files(result_.scan.shards.size());
    const Checkpoint checkpoint =
        Checkpoint::of_parts(result_.folder, std::move(no_files), result_.scan.tensors);
    const TensorComparison comparison = compare_tensors(checkpoint, config);
    constexpr size_t kNamed = 3;
    std::map<std::string, std::pair<size_t, std::string>> kinds;  // count and some of them
    for (const ProblemList::Problem& problem : comparison.problems.all()) {
      auto& [count, some] = kinds[problem.kind];
      if (count++ >= kNamed) continue;
      some += fmt::format("{}{}{}", some.empty() ? "" : "; ", problem.tensor,
                          problem.detail.empty() ? "" : " (" + problem.detail + ")");
    }
    for (const auto& [kind, found] : kinds) {
      result_.problems.push_back(fmt::format("by config.json, {} tensor{}: {}: {}{}", found.first,
                                             found.first == 1 ? "" : "s", kind, found.second,
                                             found.first > kNamed ? "; ..." : ""));
    }
    const std::vector<std::string>& unexpected = comparison.report.unexpected;
    if (unexpected.empty()) return;
    result_.problems.push_back(fmt::format("{} tensor{} that config.json does not call for: {}{}",
                                           unexpected.size(), unexpected.size() == 1 ? "" : "s",
                                           quoted_for_message(unexpected.front()),
                                           unexpected.size() > 1 ? ", ..." : ""));
  }

  Inspection result_;
};

}  // namespace

Inspection inspect_checkpoint(const std::string& folder, const TokenizerFacts& tokenizer) {
  return Inspector(folder, tokenizer).run();
}

std::vector<size_t> layer_manifest(const Inspection& inspection, int64_t layer) {
  const std::string prefix = fmt::format("{}{}.", inspection.stack, layer);
  std::vector<size_t> found;
  if (inspection.stack.empty()) return found;
  for (size_t i = 0; i < inspection.scan.tensors.size(); ++i) {
    if (inspection.scan.tensors[i].name.starts_with(prefix)) found.push_back(i);
  }
  return found;
}

}  // namespace fathom
