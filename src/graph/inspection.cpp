#include "graph/inspection.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "graph/four_graph_config.h"
#include "graph/onnx/model_files.h"
#include "graph/qhexrt/bundle.h"
#include "graph/qnn_versions.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

class Inspector {
 public:
  Inspector(const std::string& folder, const GraphChoice& choice) : choice_(choice) {
    result_.folder = folder;
    result_.platform = this_platform();
  }

  GraphInspection inspect() {
    attempt([this] { look_at_runtime(); });
    attempt([this] {
      if (graph_contract(result_.folder, choice_) == GraphContract::qhexrt) {
        look_at_bundle();
      } else {
        look_at_four_graphs();
      }
    });
    if (needs_npu_ && !has_npu()) {
      result_.problems.push_back(
          "there are context binaries of QNN, but no QNN provider to run them: see docs/npu.md");
    }
    return std::move(result_);
  }

 private:
  template <typename Step>
  void attempt(const Step& step) {
    try {
      step();
    } catch (const Error& error) {
      result_.problems.emplace_back(error.what());
    }
  }

  bool has_npu() const {
    return std::find(result_.providers.begin(), result_.providers.end(), kQnnProvider) !=
           result_.providers.end();
  }

  void look_at_runtime() {
    const auto runtime = load_graph_runtime(choice_.runtime);
    result_.runtime = "ONNX Runtime " + runtime->version() + " (" + runtime->library() + ")";
    result_.qnn_library = choice_.qnn_library.empty() ? find_qnn_library(*runtime, choice_.runtime)
                                                      : choice_.qnn_library;
    if (!result_.qnn_library.empty()) {
      attempt([&] { runtime->register_qnn(result_.qnn_library); });
    }
    result_.providers = runtime->providers();
    result_.devices = runtime->devices();
  }

  void look_at_four_graphs() {
    result_.contract = "four graphs";
    const FourGraphConfig config = read_four_graph_config(result_.folder, choice_.layout);
    result_.source = config.source;
    for (const FourGraphStage& stage : config.stages) {
      add(stage.name, (fs::path(result_.folder) / stage.file).string());
    }
  }

  void look_at_bundle() {
    result_.contract = "QHexRT bundle";
    const QhexrtManifest manifest = read_qhexrt_manifest(result_.folder, choice_);
    result_.source = manifest.path;
    const std::string root = artifacts_of(manifest, choice_);
    attempt([&] { check_qhexrt_target(manifest, choice_.qnn); });
    const auto context = [&](const std::string& name, const QhexrtContext& one) {
      add(name, (fs::path(root) / one.file).string());
    };
    for (size_t i = 0; i < manifest.decode.size(); ++i) {
      context(manifest.decode.size() == 1 ? "decode" : "decode_p" + std::to_string(i),
              manifest.decode[i]);
    }
    if (manifest.prefill) context("prefill", *manifest.prefill);
    context("lmhead", manifest.lmhead);
    attempt([&] { open_qhexrt_embedding(manifest, root); });
  }

  void add(const std::string& name, const std::string& path) {
    attempt([&] {
      std::error_code error;
      InspectedGraph graph;
      graph.name = name;
      graph.file = path;
      graph.bytes = fs::file_size(path, error);
      if (error) fail(ErrorKind::io, "{}: {}", path, error.message());
      if (fs::path(path).extension() == ".onnx") {
        const onnx::ModelFiles files = onnx::read_model_files(path);
        graph.inputs = files.inputs;
        graph.outputs = files.outputs;
        for (const onnx::ContextNode& node : files.contexts) {
          add_context(&graph, node.file.empty() ? "" : sibling(path, node.file));
        }
      } else {
        add_context(&graph, path);
      }
      result_.graphs.push_back(std::move(graph));
    });
  }

  static std::string sibling(const std::string& path, const std::string& file) {
    return (fs::path(path).parent_path() / file).string();
  }

  void add_context(InspectedGraph* graph, const std::string& binary) {
    needs_npu_ = true;
    const auto release = qnn_version_in(binary.empty() ? graph->file : binary);
    graph->contexts.push_back((binary.empty() ? "inside the graph" : binary) + ", " +
                              (release ? "made by QNN " + *release : "of an unknown QNN release"));
  }

  const GraphChoice& choice_;
  GraphInspection result_;
  bool needs_npu_ = false;
};

}  // namespace

GraphInspection inspect_graphs(const std::string& folder, const GraphChoice& choice) {
  return Inspector(folder, choice).inspect();
}

}  // namespace fathom
