#include "graph/qhexrt/manifest.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/json.h"
#include "checkpoint/config_fields.h"
#include "graph/qnn_options.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMost = int64_t{1} << 28;
const json kNothing = json::object();

// 81 of "v81" or "81"; 0 where it is neither.
int arch_of(std::string_view text) {
  if (!text.empty() && (text[0] == 'v' || text[0] == 'V')) text.remove_prefix(1);
  int arch = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arch);
  return error == std::errc() && end == text.data() + text.size() ? arch : 0;
}

class ManifestReader {
 public:
  ManifestReader(const json& document, const std::string& path) : document_(document) {
    manifest_.path = path;
  }

  QhexrtManifest read() {
    ConfigFields top(document_, "", &problems_);
    if (top.required_int("schema_version", {0, kMost}) > 1) {
      top.problem("schema_version", "only 1 is known");
    }
    read_model();
    read_params();
    read_artifacts();
    read_plan();
    const json& chat = object(document_, "chat", "");
    manifest_.bos_ids = numbers(chat, "bos", "chat.");
    if (!problems_.empty()) {
      fail_input("{}:\n  {}", manifest_.path, join(problems_, "\n  "));
    }
    return manifest_;
  }

 private:
  const json& object(const json& parent, const char* name, const std::string& prefix) {
    const auto at = parent.find(name);
    if (at == parent.end() || at->is_null()) return kNothing;
    if (at->is_object()) return *at;
    problems_.push_back(prefix + name + ": an object is expected");
    return kNothing;
  }

  std::vector<int64_t> numbers(const json& parent, const char* name, const std::string& prefix) {
    std::vector<int64_t> result;
    const auto at = parent.find(name);
    if (at == parent.end() || at->is_null()) return result;
    for (const json& one : at->is_array() ? *at : json::array({*at})) {
      if (one.is_number_integer() && one.get<int64_t>() >= 0) {
        result.push_back(one.get<int64_t>());
      } else {
        problems_.push_back(prefix + name + ": token ids are expected");
      }
    }
    return result;
  }

  void read_model() {
    const json& model = object(document_, "model", "");
    ConfigFields fields(model, "model.", &problems_);
    manifest_.name = fields.optional_string("name").value_or("");
    manifest_.family = fields.optional_string("family").value_or("");
    if (const json* arch = fields.value("dsp_arch")) {
      manifest_.dsp_arch = arch->is_string() ? arch_of(arch->get_ref<const std::string&>())
                           : arch->is_number_integer() ? arch->get<int>()
                                                       : 0;
      if (manifest_.dsp_arch == 0) fields.problem("dsp_arch", "v73, v75, v79, v81 or the like");
    }
    if (const auto soc = fields.optional_int("soc_model", {0, 100000})) {
      manifest_.soc_model = static_cast<int>(*soc);
    }
  }

  void read_params() {
    const json& params = object(document_, "params", "");
    ConfigFields fields(params, "params.", &problems_);
    manifest_.hidden = fields.required_int("hidden", {1, kMost});
    manifest_.vocab = fields.required_int("vocab", {1, kMost});
    manifest_.n_layers = fields.required_int("n_layers", {1, 4096});
    manifest_.max_ctx = fields.optional_int("max_ctx", {1, kMost}).value_or(1024);
    manifest_.kv_dim = fields.required_int("kv_dim", {1, kMost});
    manifest_.head_dim = fields.required_int("head_dim", {2, kMost});
    manifest_.rope_theta = fields.optional_number("rope_theta", {1, 1e12}).value_or(10000);
    manifest_.eos_ids = numbers(params, "eos_token_id", "params.");
    if (manifest_.head_dim % 2 != 0) fields.problem("head_dim", "an even number is expected");
    if (manifest_.head_dim > 0 && manifest_.kv_dim % manifest_.head_dim != 0) {
      fields.problem("kv_dim", "{} is no multiple of head_dim {}", manifest_.kv_dim,
                     manifest_.head_dim);
    }
  }

  // A file's name, given plainly or as {"bin": name}.
  std::string file_name(const json& parent, const char* name, const std::string& prefix) {
    const auto at = parent.find(name);
    std::string text;
    if (at != parent.end()) {
      const json& value = at->is_object() ? at->value("bin", json()) : *at;
      if (value.is_string()) text = value.get<std::string>();
    }
    if (text.empty()) problems_.push_back(prefix + name + ": a file's name is expected");
    return text;
  }

  void read_artifacts() {
    const json& artifacts = object(document_, "artifacts", "");
    const json& contexts = object(artifacts, "contexts", "artifacts.");
    const std::string prefix = "artifacts.contexts.";
    const json& decode = object(contexts, "decode", prefix);
    if (const auto shards = decode.find("shards"); shards != decode.end() && shards->is_array()) {
      for (const json& shard : *shards) read_shard(shard, prefix + "decode.shards: ");
    } else {
      manifest_.decode.push_back({file_name(contexts, "decode", prefix), "", 0});
    }
    if (manifest_.decode.empty()) problems_.push_back(prefix + "decode.shards: there is none");
    manifest_.lmhead.file = file_name(contexts, "lmhead", prefix);
    if (contexts.contains("prefill") && !contexts["prefill"].is_null()) {
      manifest_.prefill = QhexrtContext{file_name(contexts, "prefill", prefix), "", 0};
      const json& prefill = object(contexts, "prefill", prefix);
      ConfigFields fields(prefill, prefix + "prefill.", &problems_);
      manifest_.prefill_rows = fields.optional_int("rows", {1, kMost}).value_or(0);
    }
    manifest_.embed = file_name(artifacts, "embed", "artifacts.");
    manifest_.tokenizer = file_name(artifacts, "tokenizer", "artifacts.");
  }

  void read_shard(const json& shard, const std::string& prefix) {
    QhexrtContext context;
    if (shard.is_string()) {
      context.file = shard.get<std::string>();
    } else if (shard.is_object()) {
      context.file = file_name(shard, "bin", prefix);
      ConfigFields fields(shard, prefix, &problems_);
      context.layers = fields.optional_int("layers", {1, 4096}).value_or(0);
      context.graph = fields.optional_string("graph").value_or("");
    } else {
      problems_.push_back(prefix + "names of files are expected");
    }
    manifest_.decode.push_back(std::move(context));
  }

  // The name of a graph: plan.decode or plan.decode.graph.
  std::string graph_name(const json& plan, const char* role) {
    const auto at = plan.find(role);
    if (at == plan.end()) return "";
    const json& value = at->is_object() ? at->value("graph", json()) : *at;
    return value.is_string() ? value.get<std::string>() : "";
  }

  void read_plan() {
    const json& plan = object(document_, "plan", "");
    ConfigFields fields(plan, "plan.", &problems_);
    for (QhexrtContext& context : manifest_.decode) {
      if (context.graph.empty()) context.graph = graph_name(plan, "decode");
    }
    manifest_.lmhead.graph = graph_name(plan, "lmhead");
    if (manifest_.prefill) manifest_.prefill->graph = graph_name(plan, "prefill");
    manifest_.cmask_includes_current =
        fields.optional_bool("cmask_includes_current").value_or(false);
    manifest_.local_layer_names = fields.optional_bool("local_layer_names").value_or(false);
    if (const auto at = plan.find("lmhead"); at != plan.end() && at->is_object()) {
      ConfigFields head(*at, "plan.lmhead.", &problems_);
      manifest_.lmhead_input = head.optional_string("input").value_or("x");
      manifest_.lmhead_output = head.optional_string("output").value_or("logits");
    }
  }

  const json& document_;
  QhexrtManifest manifest_;
  std::vector<std::string> problems_;
};

// The one JSON file in `folder` that has the members of a manifest.
std::string manifest_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".json" || !entry.is_regular_file(ignored)) continue;
    if (entry.file_size(ignored) > kMostManifestBytes) continue;
    const json document = json::parse(read_text(path.string()), nullptr, false);
    if (document.is_object() && document.contains("schema_version") &&
        document.contains("artifacts")) {
      found.push_back(path.string());
    }
  }
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    fail_input("{}: there are several manifests: {}", folder, join(found, ", "));
  }
  return found.empty() ? "" : found[0];
}

}  // namespace

bool QhexrtContext::is_binary() const { return fs::path(file).extension() != ".onnx"; }

QhexrtManifest parse_qhexrt_manifest(const std::string& text, const std::string& path) {
  const json document = parse_json(text, path);
  if (!document.is_object()) fail_input("{}: a JSON object is expected", path);
  return ManifestReader(document, path).read();
}

std::string find_qhexrt_manifest(const std::string& bundle, const GraphOptions& qnn) {
  if (std::string here = manifest_in(bundle); !here.empty()) return here;
  std::map<int, std::string> by_arch;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(bundle, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory(ignored) || name.empty() || name[0] != 'v' || arch_of(name) == 0) {
      continue;
    }
    std::string manifest = manifest_in(entry.path().string());
    if (manifest.empty()) continue;
    by_arch[arch_of(name)] = std::move(manifest);
  }
  if (by_arch.empty()) return "";
  for (const auto& [arch, manifest] : by_arch) names.push_back("v" + std::to_string(arch));
  if (const auto arch = wanted_arch(qnn, "--qnn")) {
    const auto at = by_arch.find(*arch);
    if (at == by_arch.end()) {
      fail_input("{}: there is no folder for Hexagon v{}; there are {}", bundle, *arch,
                 join(names, ", "));
    }
    return at->second;
  }
  if (by_arch.size() > 1) {
    fail_usage(
        "{}: there are folders for {}: name one of them, or give --qnn htp_arch=N or --qnn "
        "soc_model=N",
        bundle, join(names, ", "));
  }
  return by_arch.begin()->second;
}

void check_qhexrt_target(const QhexrtManifest& manifest, const GraphOptions& qnn) {
  const int made_for = manifest.dsp_arch;
  const std::string folder = fs::path(manifest.path).parent_path().filename().string();
  if (made_for != 0 && !folder.empty() && folder[0] == 'v' && arch_of(folder) != 0 &&
      arch_of(folder) != made_for) {
    fail_input("{}: model.dsp_arch is v{}, but the folder is {}", manifest.path, made_for, folder);
  }
  const auto wanted = wanted_arch(qnn, "--qnn");
  if (made_for != 0 && wanted && *wanted != made_for) {
    fail_input(
        "{}: the bundle is made for Hexagon v{}, and this device is v{}: its context "
        "binaries cannot run here; take the bundle of v{}",
        manifest.path, made_for, *wanted, *wanted);
  }
  const auto soc = qnn.find("soc_model");
  if (manifest.soc_model && soc != qnn.end() &&
      soc->second != std::to_string(*manifest.soc_model)) {
    const SnapdragonChip* chip = chip_of(*manifest.soc_model);
    fail_input("{}: the bundle is made for soc_model {}{}, and this device is soc_model {}",
               manifest.path, *manifest.soc_model,
               chip != nullptr ? std::string(" (") + chip->name + ")" : "", soc->second);
  }
}

}  // namespace fathom
