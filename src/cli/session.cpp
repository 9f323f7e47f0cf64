#include "cli/session.h"

#include <filesystem>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/interrupt.h"
#include "engine/graph_backend.h"
#include "engine/text_folder.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

// "20 GiB (--ram ...): attention 10.6 GiB, head 1.73 GiB, ..."
std::string memory_line(const ModelInfo& info) {
  std::string text =
      info.memory_budget == UINT64_MAX
          ? info.memory_reason
          : fmt::format("{} ({})", format_size(info.memory_budget), info.memory_reason);
  const char* separator = ": ";
  for (const MemoryShare& share : info.memory) {
    text += fmt::format("{}{} {}", separator, share.name, format_size(share.bytes));
    separator = ", ";
  }
  return text;
}

}  // namespace

std::string model_folder(const std::string& given) {
  if (!given.empty()) return resolve_model_folder(given);
  // bin/fathom beside share/fathom/demo, or build/NAME/fathom inside the source tree.
  std::error_code ignored;
  for (fs::path at = fs::path(system::program_path()).parent_path(); !at.empty();
       at = at.parent_path()) {
    for (const char* place : {"share/fathom/models/demo", "models/demo"}) {
      if (fs::exists(at / place / "config.json", ignored)) return (at / place).string();
    }
    if (at == at.root_path()) break;
  }
  fail_usage("there is no demo model with this program: give --model DIR, a model folder");
}

void require_tokenizer(const std::string& folder, const std::string& option) {
  if (TextFolder::present(folder)) return;
  fail_input("{}: there is no tokenizer.json, which {} needs", folder, option);
}

void require_tokenizer(const ModelOptions& model, const std::string& option) {
  require_tokenizer(graph_text_folder(model.folder, graph_choice_of(model.graph)), option);
}

const char* kv_name(KvPrecision kv) {
  switch (kv) {
    case KvPrecision::f32:
      return "f32";
    case KvPrecision::bf16:
      return "bf16";
    case KvPrecision::int8:
      return "int8";
  }
  return "";
}

const char* precision_name(WeightPrecision precision) {
  switch (precision) {
    case WeightPrecision::int8:
      return "int8";
    case WeightPrecision::int4:
      return "int4";
    case WeightPrecision::native:
      break;
  }
  return "native";
}

Model load_model(const ModelOptions& options, const OutputOptions& output, TextNeeds needs,
                 bool mtp) {
  LoadOptions load;
  load.needs = needs;
  load.chat_template = options.chat_template;
  load.folder = model_folder(options.folder);
  load.threads = options.threads;
  load.kernels = options.kernels;
  load.kv = options.kv;
  load.weights = options.weights;
  load.head = options.head;
  load.embed = options.embed;
  load.context = options.context;
  load.ram = options.ram;
  load.prefill_chunk = options.prefill_chunk;
  load.sequences = options.sequences;
  load.experts = options.experts;
  load.io = options.io;
  load.mirrors = options.mirrors;
  load.cache_policy = options.cache_policy;
  load.lookahead = options.lookahead;
  load.expert_trace = options.expert_trace;
  load.mtp = mtp;
  load.speculation = options.speculation;
  load.graph = options.graph;
  load.cancel = &interrupt_token();
  Model model = Model::load(load);
  interrupt_token().throw_if_cancelled();
  if (output.quiet || output.json) return model;
  const ModelInfo& info = model.info();
  log::info("model    {} ({}): {} of weights, loaded in {}", info.name, info.architecture,
            format_size(info.weight_bytes), format_duration(info.load_seconds));
  if (info.graphs.empty()) {
    log::info("compute  {} kernels, {} thread{}, KV cache {} ({} per token){}{}", info.kernels,
              info.threads, info.threads == 1 ? "" : "s", kv_name(info.kv),
              format_size(info.kv_bytes_per_token),
              info.head == WeightPrecision::int8 ? ", head int8" : "",
              info.embed == WeightPrecision::int8 ? ", embedding int8" : "");
  } else {
    log::info("compute  {}; keys and values take {} per token", info.kernels,
              format_size(info.kv_bytes_per_token));
    for (const std::string& graph : info.graphs) log::info("graph    {}", graph);
  }
  if (!info.remark.empty()) log::info("note     {}", info.remark);
  log::info("context  {} tokens: {}", info.context.tokens, info.context.reason);
  if (options.ram > 0 || info.experts_on_disk) log::info("memory   {}", memory_line(info));
  if (info.experts_on_disk) log::info("experts  {}", info.experts);
  return model;
}

void settle_sampling(AskOptions& ask, const std::string& folder, const OutputOptions& output) {
  const SamplingInForce force = sampling_in_force(ask.sampling, read_generation_config(folder));
  ask.sampling.seed = choose_seed(ask.seed, force.temperature);
  if (output.quiet || output.json) return;
  const bool drawn = force.temperature >= 1e-6;
  log::info("sampling {}{}", force.text,
            !drawn     ? ""
            : ask.seed ? fmt::format("; --seed {}", ask.sampling.seed)
                       : fmt::format("; --seed {} (drawn; give it to repeat this run)",
                                     ask.sampling.seed));
}

void require_parent_folder(const std::string& path, const std::string& option) {
  if (path.empty()) return;
  std::error_code ignored;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, ignored)) {
    fail(ErrorKind::io, "{} {}: there is no folder {}", option, path, parent.string());
  }
  if (fs::is_directory(path, ignored)) {
    fail(ErrorKind::io, "{} {}: this is a folder", option, path);
  }
}

std::string read_standard_input() {
  if (system::stdin_is_terminal()) {
    log::info("reading text from the keyboard; Ctrl-D on an empty line ends it");
  }
  std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  interrupt_token().throw_if_cancelled();
  if (std::cin.bad()) fail(ErrorKind::io, "standard input: cannot be read");
  return text;
}

void read_format(OutputFormat* format) {
  if (format->kind == OutputFormat::Kind::json_schema) format->schema = read_input(format->schema);
}

std::string read_input(const std::string& path) {
  if (path == "-") return read_standard_input();
  constexpr uint64_t kMostBytes = uint64_t{1} << 30;
  return read_stream(path, kMostBytes, &interrupt_token());
}

}  // namespace fathom::cli
