#include "graph/four_graph_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json.h"
#include "checkpoint/config_fields.h"
#include "graph/onnx/model_files.h"
#include "graph/qnn_options.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 32;
const json kNothing = json::object();

const json& member(const json& object, const char* name, const std::string& prefix,
                   std::vector<std::string>* problems) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return kNothing;
  if (at->is_object()) return *at;
  problems->push_back(prefix + name + ": an object is expected");
  return kNothing;
}

std::string option_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

class ConfigReader {
 public:
  explicit ConfigReader(const json& document) : document_(document) {}

  FourGraphConfig read() {
    const json& model = member(document_, "model", "", &problems_);
    ConfigFields fields(model, "model.", &problems_);
    fields.require_one_of("type", {"decoder-pipeline"});
    if (!fields.has("type")) fields.problem("type", "is missing; decoder-pipeline is expected");
    config_.context_length = number(fields, "context_length");
    config_.vocab_size = number(fields, "vocab_size");
    config_.pad_value = fields.optional_int("pad_token_id", {0, kMost}).value_or(0);
    read_ends(model);
    const json& decoder = member(model, "decoder", "model.", &problems_);
    ConfigFields sizes(decoder, "model.decoder.", &problems_);
    config_.hidden_size = number(sizes, "hidden_size");
    config_.num_hidden_layers = number(sizes, "num_hidden_layers");
    config_.num_key_value_heads = number(sizes, "num_key_value_heads");
    config_.head_size = number(sizes, "head_size");
    read_names(decoder);
    read_window(decoder);
    const json& shared = member(decoder, "session_options", "model.decoder.", &problems_);
    read_pipeline(decoder, shared);
    return config_;
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  static int64_t number(ConfigFields& fields, const char* name) {
    return fields.optional_int(name, {1, kMost}).value_or(0);
  }

  void read_ends(const json& model) {
    const auto at = model.find("eos_token_id");
    if (at == model.end()) return;
    for (const json& id : at->is_array() ? *at : json::array({*at})) {
      if (id.is_number_integer()) {
        config_.eos_ids.push_back(id.get<int64_t>());
      } else {
        problems_.push_back("model.eos_token_id: a number or a list of numbers is expected");
      }
    }
  }

  void pattern(ConfigFields& fields, const char* name, std::string* into) {
    if (const auto text = fields.optional_string(name)) *into = *text;
  }

  void read_names(const json& decoder) {
    FourGraphNames& names = config_.names;
    ConfigFields in(member(decoder, "inputs", "model.decoder.", &problems_),
                    "model.decoder.inputs.", &problems_);
    pattern(in, "input_ids", &names.input_ids);
    pattern(in, "past_sequence_length", &names.past_length);
    pattern(in, "total_sequence_length", &names.total_length);
    pattern(in, "past_key_names", &names.past_keys);
    pattern(in, "past_value_names", &names.past_values);
    ConfigFields out(member(decoder, "outputs", "model.decoder.", &problems_),
                     "model.decoder.outputs.", &problems_);
    pattern(out, "logits", &names.logits);
    pattern(out, "present_key_names", &names.present_keys);
    pattern(out, "present_value_names", &names.present_values);
    for (const std::string* name :
         {&names.past_keys, &names.past_values, &names.present_keys, &names.present_values}) {
      if (name->find("%d") == std::string::npos) {
        problems_.push_back("model.decoder: the name '" + *name +
                            "' has no %d for the layer's number");
      }
    }
  }

  void read_window(const json& decoder) {
    if (!decoder.contains("sliding_window")) return;
    ConfigFields fields(member(decoder, "sliding_window", "model.decoder.", &problems_),
                        "model.decoder.sliding_window.", &problems_);
    if (const auto size = fields.optional_int("window_size", {1, kMost})) config_.window = *size;
    if (const auto pad = fields.optional_int("pad_value", {0, kMost})) config_.pad_value = *pad;
    fields.require_one_of("alignment", {"left"});
    if (fields.optional_bool("slide_key_value_cache").value_or(false)) {
      fields.problem("slide_key_value_cache",
                     "only false is supported: keys and values lie at "
                     "their positions");
    }
  }

  void read_session(const json& options, FourGraphStage* stage, const std::string& prefix) {
    for (const auto& [key, value] : options.items()) {
      if (key == "provider_options" && value.is_array()) {
        for (const json& provider : value) read_provider(provider, stage, prefix);
      } else if (key.starts_with("ep.") || key.starts_with("session.")) {
        stage->session_options[key] = option_text(value);
      }
      // Log names, numbers of threads and the like are of no consequence here.
    }
  }

  void read_provider(const json& provider, FourGraphStage* stage, const std::string& prefix) {
    if (!provider.is_object()) return;
    for (const auto& [name, options] : provider.items()) {
      std::string lower = name;
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (lower != "qnn" && lower != "qnnexecutionprovider") continue;
      stage->wants_qnn = true;
      if (!options.is_object()) continue;
      for (const auto& [key, value] : options.items()) {
        try {
          check_qnn_option(key, option_text(value), prefix + "provider_options");
          stage->qnn_options[key] = option_text(value);
        } catch (const Error& error) {
          problems_.emplace_back(error.what());
        }
      }
    }
  }

  std::vector<std::string> texts(const json& object, const char* name, const std::string& prefix) {
    std::vector<std::string> result;
    const auto at = object.find(name);
    if (at == object.end()) return result;
    if (!at->is_array()) problems_.push_back(prefix + name + ": a list is expected");
    for (const json& text : *at) {
      if (text.is_string()) result.push_back(text.get<std::string>());
    }
    return result;
  }

  void read_pipeline(const json& decoder, const json& shared_session) {
    const auto at = decoder.find("pipeline");
    if (at == decoder.end() || !at->is_array()) {
      problems_.emplace_back("model.decoder.pipeline: a list of stages is expected");
      return;
    }
    std::vector<StageRole> order;
    std::array<std::optional<int64_t>, kStages> resets;
    std::array<bool, kStages> seen{};
    for (const json& item : *at) {
      // Each item is an object of one member: the stage's name and what it is.
      if (!item.is_object()) continue;
      for (const auto& [name, body] : item.items()) {
        const std::string prefix = "model.decoder.pipeline." + name + ".";
        if (!body.is_object()) {
          problems_.push_back(prefix + ": an object is expected");
          continue;
        }
        FourGraphStage stage;
        stage.name = name;
        ConfigFields fields(body, prefix, &problems_);
        stage.file = fields.optional_string("filename").value_or("");
        if (stage.file.empty()) fields.problem("filename", "is missing");
        stage.inputs = texts(body, "inputs", prefix);
        stage.outputs = texts(body, "outputs", prefix);
        read_session(shared_session, &stage, "model.decoder.session_options.");
        read_session(member(body, "session_options", prefix, &problems_), &stage, prefix);
        stage.role = role_of(stage, fields);
        const auto index = static_cast<size_t>(stage.role);
        if (seen[index]) {
          problems_.push_back(prefix + ": a second " + stage_name(stage.role) +
                              " stage; four stages are supported");
          continue;
        }
        seen[index] = true;
        order.push_back(stage.role);
        const int64_t reset = fields.optional_int("reset_session_idx", {-1, 100}).value_or(-1);
        if (reset >= 0) resets[index] = reset;
        config_.stage(stage.role) = stage;
      }
    }
    for (int i = 0; i < kStages; ++i) {
      const auto index = static_cast<size_t>(i);
      if (!seen[index]) {
        problems_.push_back(std::string("model.decoder.pipeline: there is no ") +
                            stage_name(static_cast<StageRole>(i)) + " stage");
      }
      if (!resets[index]) continue;
      if (*resets[index] >= static_cast<int64_t>(order.size())) {
        problems_.push_back("model.decoder.pipeline." + config_.stages[i].name +
                            ".reset_session_idx: there is no stage " +
                            std::to_string(*resets[index]));
      } else {
        config_.stages[i].reset = order[static_cast<size_t>(*resets[index])];
      }
    }
    take_hidden_names();
  }

  StageRole role_of(const FourGraphStage& stage, ConfigFields& fields) {
    const auto has = [](const std::vector<std::string>& names, const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (fields.optional_bool("is_lm_head").value_or(false) ||
        has(stage.outputs, config_.names.logits)) {
      return StageRole::head;
    }
    if (has(stage.inputs, config_.names.input_ids)) return StageRole::embedding;
    if (!fields.optional_bool("run_on_token_gen").value_or(true)) return StageRole::context;
    if (!fields.optional_bool("run_on_prompt").value_or(true)) return StageRole::iteration;
    fields.problem("run_on_prompt",
                   "this stage is neither the embedding nor the head, and runs on prompts and "
                   "tokens alike; a context and an iteration stage are expected");
    return StageRole::context;
  }

  // Hidden states have no entry of their own: they are what the embedding gives and the head takes.
  void take_hidden_names() {
    const FourGraphStage& embedding = config_.stage(StageRole::embedding);
    const FourGraphStage& head = config_.stage(StageRole::head);
    if (embedding.outputs.size() == 1) config_.names.input_hidden = embedding.outputs[0];
    if (head.inputs.size() == 1) config_.names.output_hidden = head.inputs[0];
  }

  const json& document_;
  FourGraphConfig config_;
  std::vector<std::string> problems_;
};

bool contains_any(const std::string& name, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&name](const char* word) { return name.find(word) != std::string::npos; });
}

// Files that `stage` needs and that are not there.
void find_missing(const std::string& folder, const FourGraphStage& stage,
                  std::vector<std::string>* missing) {
  const fs::path model = fs::path(folder) / stage.file;
  const auto add = [missing](const std::string& what) {
    if (std::find(missing->begin(), missing->end(), what) == missing->end()) {
      missing->push_back(what);
    }
  };
  std::error_code ignored;
  if (!fs::exists(model, ignored)) {
    add(stage.file + " (the " + stage_name(stage.role) + " graph)");
    return;
  }
  const onnx::ModelFiles files = onnx::read_model_files(model.string());
  for (const std::string& data : files.data_files) {
    if (!fs::exists(model.parent_path() / data, ignored)) {
      add(data + " (weights of " + stage.file + ")");
    }
  }
  for (const onnx::ContextNode& context : files.contexts) {
    if (context.file.empty() || fs::exists(model.parent_path() / context.file, ignored)) continue;
    add(context.file + " (context binary of " + stage.file + ")");
  }
}

}  // namespace

const char* stage_name(StageRole role) {
  constexpr std::array kNames = {"embedding", "context", "iteration", "head"};
  return kNames[static_cast<size_t>(role)];
}

FourGraphConfig parse_genai_config(const std::string& text, const std::string& path) {
  const json document = parse_json(text, path);
  if (!document.is_object()) fail_input("{}: a JSON object is expected", path);
  ConfigReader reader(document);
  FourGraphConfig config = reader.read();
  if (!reader.problems().empty()) fail_input("{}:\n  {}", path, join(reader.problems(), "\n  "));
  config.source = path;
  return config;
}

FourGraphConfig walkthrough_config(const std::string& folder) {
  FourGraphConfig config;
  config.source = folder + " (the four-graph layout)";
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().filename().string());
  }
  if (error) fail(ErrorKind::io, "{}: cannot be read: {}", folder, error.message());
  std::sort(names.begin(), names.end());
  std::vector<std::string> problems;
  for (const std::string& name : names) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    // "ctx" comes last: compiled models end with _ctx.onnx whatever they are.
    std::optional<StageRole> role;
    if (contains_any(lower, {"embed"})) {
      role = StageRole::embedding;
    } else if (contains_any(lower, {"head"})) {
      role = StageRole::head;
    } else if (contains_any(lower, {"iter", "decode", "token"})) {
      role = StageRole::iteration;
    } else if (contains_any(lower, {"context", "prefill", "prompt", "ctx"})) {
      role = StageRole::context;
    }
    if (!role) continue;
    FourGraphStage& stage = config.stage(*role);
    if (!stage.file.empty()) {
      problems.push_back(name + " and " + stage.file + " are both the " + stage_name(*role) +
                         " graph by their names");
      continue;
    }
    stage.file = name;
    stage.role = *role;
    stage.name = stage_name(*role);
  }
  for (int i = 0; i < kStages; ++i) {
    if (!config.stages[i].file.empty()) continue;
    problems.push_back(std::string("there is no ") + stage_name(static_cast<StageRole>(i)) +
                       " graph (*.onnx with embed, context or ctx, iter, head in its name)");
  }
  if (!problems.empty()) fail_input("{}:\n  {}", folder, join(problems, "\n  "));
  return config;
}

FourGraphConfig read_four_graph_config(const std::string& folder, const std::string& layout) {
  const std::string path = folder + "/genai_config.json";
  FourGraphConfig config = layout == "four-graph"
                               ? walkthrough_config(folder)
                               : parse_genai_config(read_text(path, 1 << 20), path);
  std::vector<std::string> missing;
  for (const FourGraphStage& stage : config.stages) find_missing(folder, stage, &missing);
  if (!missing.empty()) {
    fail_input("{}: these files are missing:\n  {}", folder, join(missing, "\n  "));
  }
  return config;
}

}  // namespace fathom
