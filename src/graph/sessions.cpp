#include "graph/sessions.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/join.h"
#include "base/shared_library.h"
#include "graph/onnx/model_files.h"
#include "graph/qnn_options.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

std::string counts_text(const std::map<std::string, int64_t>& operators) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : operators) {
    parts.push_back(count == 1 ? name : std::to_string(count) + " " + name);
  }
  return join(parts, ", ");
}

bool is_expected(const GraphFile& file, const std::string& op) {
  return std::any_of(file.expected_on_cpu.begin(), file.expected_on_cpu.end(),
                     [&op](const std::string& name) { return name == "*" || name == op; });
}

bool is_context_node(const std::string& op) { return op == "com.microsoft.EPContext"; }

// A name for a compiled context that changes with whatever it depends on.
std::string cache_name(const GraphFile& file, const SessionRequest& request,
                       const GraphRuntime& runtime) {
  std::string key = fs::weakly_canonical(file.path).string() + "\n" + runtime.version();
  std::error_code ignored;
  key += "\n" + std::to_string(fs::file_size(file.path, ignored)) + "\n" +
         std::to_string(fs::last_write_time(file.path, ignored).time_since_epoch().count());
  for (const auto& [name, value] : request.provider_options) key += "\n" + name + "=" + value;
  return file.name + "-" + hash128(key).hex().substr(0, 16) + "_ctx.onnx";
}

}  // namespace

std::string find_qnn_library(const GraphRuntime& runtime, const RuntimePlaces& places) {
  const std::string name = shared_library_name("onnxruntime_providers_qnn");
  std::vector<fs::path> folders{fs::path(runtime.library()).parent_path()};
  for (const std::string& folder : places.folders) {
    folders.emplace_back(folder);
    folders.push_back(fs::path(folder) / "lib");
  }
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (!folder.empty() && fs::exists(folder / name, ignored)) return (folder / name).string();
  }
  return "";
}

GraphSessions::GraphSessions(const GraphChoice& choice, bool wants_qnn) : choice_(choice) {
  check_qnn_options(choice.qnn, "--qnn");
  if (choice.require_npu && choice.provider == Provider::cpu) {
    fail_usage("--require-npu: --provider cpu is the opposite");
  }
  runtime_ = load_graph_runtime(choice.runtime);
  std::string plugin = choice.qnn_library;
  if (plugin.empty()) plugin = find_qnn_library(*runtime_, choice.runtime);
  const std::vector<std::string> built_in = runtime_->providers();
  const bool there = !plugin.empty() ||
                     std::find(built_in.begin(), built_in.end(), kQnnProvider) != built_in.end();
  if (choice.provider) {
    provider_ = *choice.provider;
    reason_ = "--provider";
  } else if (choice.require_npu || !choice.qnn_library.empty() || !choice.qnn.empty()) {
    provider_ = Provider::qnn;
    reason_ = choice.require_npu ? "--require-npu" : "options of the QNN provider were given";
  } else if (wants_qnn && there) {
    provider_ = Provider::qnn;
    reason_ = "the model's configuration asks for it";
  } else {
    reason_ = wants_qnn ? "the model's configuration asks for QNN, but this runtime has no QNN "
                          "provider and there is no plugin library beside it"
                        : "no other was asked for";
  }
  if (provider_ != Provider::qnn) return;
  if (!plugin.empty()) runtime_->register_qnn(plugin);
  if (!there) {
    fail_input(
        "the QNN provider is not there: {} (ONNX Runtime {}) has the providers {}, and there is no "
        "{} beside it; install the QNN build of ONNX Runtime, or give --qnn-library FILE",
        runtime_->library(), runtime_->version(), join(built_in, ", "),
        shared_library_name("onnxruntime_providers_qnn"));
  }
}

std::unique_ptr<GraphRunner> GraphSessions::open(const GraphFile& file) {
  SessionRequest request;
  request.name = file.name;
  request.file = file.path;
  request.provider = provider_;
  request.threads = choice_.threads;
  request.session_options = file.session_options;
  if (!choice_.profile.empty()) request.profile_prefix = choice_.profile + "_" + file.name;
  if (provider_ == Provider::qnn) {
    request.provider_options = file.provider_options;
    // A user who names one way to the backend does not mean the folder's other one.
    if (choice_.qnn.contains("backend_path") || choice_.qnn.contains("backend_type")) {
      request.provider_options.erase("backend_path");
      request.provider_options.erase("backend_type");
    }
    for (const auto& [key, value] : choice_.qnn) request.provider_options[key] = value;
    check_qnn_options(request.provider_options, file.path + ": graph " + file.name);
    if (!choice_.cpu_fallback) {
      request.session_options["session.disable_cpu_ep_fallback"] = "1";
    }
    if (file.shares_context) request.session_options["ep.share_ep_contexts"] = "1";
    if (file.last_to_share) request.session_options["ep.stop_share_ep_contexts"] = "1";
    // What is compiled already is its own cache.
    const bool compiled = !onnx::read_model_files(file.path).contexts.empty();
    if (!choice_.context_cache.empty() && !compiled) {
      const fs::path cached =
          fs::path(choice_.context_cache) / cache_name(file, request, *runtime_);
      std::error_code ignored;
      if (fs::exists(cached, ignored)) {
        request.file = cached.string();
      } else {
        fs::create_directories(choice_.context_cache, ignored);
        request.session_options["ep.context_enable"] = "1";
        request.session_options["ep.context_embed_mode"] = "0";
        request.session_options["ep.context_file_path"] = cached.string();
      }
    }
  }
  auto runner = std::make_unique<GraphRunner>(file.name, file.path, runtime_->open(request));
  std::string line = describe_assignment(file, *runner);
  // A session that is opened again (reset_session_idx) says nothing new.
  if (std::find(report_.begin(), report_.end(), line) == report_.end()) {
    report_.push_back(std::move(line));
  }
  return runner;
}

std::string GraphSessions::describe_assignment(const GraphFile& file, const GraphRunner& runner) {
  const std::vector<ProviderShare>& shares = runner.assignment();
  if (shares.empty()) {
    if (choice_.require_npu && file.must_use_npu) {
      fail_input(
          "--require-npu: graph {}: ONNX Runtime {} does not tell which provider took what (1.24 "
          "and later do)",
          file.name, runtime_->version());
    }
    return file.name + ": the runtime is too old to tell which provider took what";
  }
  std::vector<std::string> parts;
  int64_t on_npu = 0;
  std::map<std::string, int64_t> unexpected;
  std::map<std::string, int64_t> elsewhere;  // EPContext nodes
  for (const ProviderShare& share : shares) {
    std::map<std::string, int64_t> expected;
    const bool npu = share.provider == kQnnProvider;
    for (const auto& [op, count] : share.operators) {
      if (npu) on_npu += count;
      if (!npu && is_context_node(op)) elsewhere[op] += count;
      if (npu || provider_ == Provider::cpu || is_expected(file, op)) {
        expected[op] += count;
      } else {
        unexpected[op] += count;
      }
    }
    if (expected.empty()) continue;
    parts.push_back(share.provider + " " + counts_text(expected) +
                    (!npu && provider_ == Provider::qnn ? " (expected there)" : ""));
  }
  if (!unexpected.empty()) parts.push_back("UNEXPECTED on the CPU: " + counts_text(unexpected));
  const std::string text = file.name + ": " + join(parts, "; ");
  if (choice_.require_npu && (!elsewhere.empty() || (file.must_use_npu && on_npu == 0))) {
    fail_input(
        "--require-npu: {} ({}): {}", file.path,
        elsewhere.empty() ? "QNN took nothing of this graph" : "an EPContext node is not on QNN",
        text);
  }
  return text;
}

}  // namespace fathom
