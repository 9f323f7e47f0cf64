#include "engine/graph_backend.h"

#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/system.h"
#include "base/units.h"
#include "engine/graph_decoder_model.h"
#include "graph/profile.h"
#include "graph/qnn_options.h"

namespace fathom {
namespace {

// Tokens alone take next to no room: sequences need not be counted.
constexpr int64_t kPages = int64_t{1} << 20;

GraphChoice with_threads(GraphChoice choice, int threads) {
  choice.threads = threads;
  return choice;
}

class GraphBackend : public Backend {
 public:
  GraphBackend(const std::string& folder, const LoadOptions& options)
      : choice_(with_threads(graph_choice_of(options.graph), options.threads)),
        model_(std::make_unique<GraphDecoderModel>(open_graph_model(folder, choice_))),
        pages_(std::make_shared<KvPagePool>(GraphDecoderModel::cache_layout(), kPages)) {
    if (options.mtp || options.speculation == Speculation::on) {
      fail_input("{}: a model of graphs has no MTP layer to load", folder);
    }
    std::error_code ignored;
    identity_ = hash128(std::filesystem::weakly_canonical(folder, ignored).string() + "\n" +
                        std::to_string(graphs().shape().file_bytes))
                    .hex();
  }

  ~GraphBackend() override {
    try {
      for (GraphRunner* graph : graphs().graphs()) {
        const std::string file = graph->end_profiling();
        if (!file.empty()) log::info("profile  {}: {}", graph->name(), profile_summary(file));
      }
    } catch (const Error& error) {
      log::write(log::Level::error, error.what());
    }
  }

  const ModelShape& shape() const override { return model_->shape(); }

  void load(const LoadOptions& options, ModelInfo* info) override {
    const GraphModelShape& shape = graphs().shape();
    GraphSessions& sessions = graphs().sessions();
    info->identity = identity_;
    if (!shape.name.empty()) info->name = shape.name;
    info->threads = options.threads > 0 ? options.threads : system::processor_count();
    info->kernels = fmt::format("ONNX Runtime {}, {} ({})", sessions.runtime().version(),
                                sessions.provider() == Provider::qnn ? kQnnProvider : kCpuProvider,
                                sessions.provider_reason());
    info->weight_bytes = shape.file_bytes;
    info->kv_bytes_per_token = shape.kv_bytes / static_cast<uint64_t>(shape.max_len);
    info->memory = {{"graphs and weights", shape.file_bytes}, {"keys and values", shape.kv_bytes}};
    const MemoryBudget budget = decide_budget(options.ram, system::available_memory());
    info->memory_budget = budget.bytes;
    info->memory_reason = budget.reason;
    info->graphs = sessions.report();
    info->remark = model_->abilities().remark;
    if (options.ram > 0 && shape.file_bytes + shape.kv_bytes > options.ram) {
      fail_input("{}: graphs and weights take {}, keys and values {}: more than --ram {}",
                 info->folder, format_size(shape.file_bytes), format_size(shape.kv_bytes),
                 format_size(options.ram));
    }
  }

  Decoder& decoder() override { return *model_; }
  const std::shared_ptr<KvPagePool>& pages() const override { return pages_; }
  void count(ModelStats*) const override {}

  std::string text_folder(const std::string& folder) const override {
    return graph_text_folder(folder, choice_);
  }
  std::string positions_source() const override { return "the graphs' room for keys and values"; }
  std::vector<int64_t> eos_ids() const override { return graphs().shape().eos_ids; }
  std::vector<int64_t> bos_ids() const override { return graphs().shape().bos_ids; }

 private:
  GraphDecoder& graphs() const { return model_->graphs(); }

  GraphChoice choice_;
  std::unique_ptr<GraphDecoderModel> model_;
  std::shared_ptr<KvPagePool> pages_;
  std::string identity_;
};

}  // namespace

GraphChoice graph_choice_of(const GraphLoadOptions& graph) {
  GraphChoice choice;
  choice.runtime.library = graph.runtime;
  choice.runtime.folders = graph.runtime_folders;
  if (graph.provider == "cpu") {
    choice.provider = Provider::cpu;
  } else if (graph.provider == "qnn") {
    choice.provider = Provider::qnn;
  } else if (!graph.provider.empty()) {
    fail_usage("provider: '{}' is none of cpu, qnn", graph.provider);
  }
  if (!graph.layout.empty() && graph.layout != "four-graph") {
    fail_usage("layout: '{}' is not four-graph", graph.layout);
  }
  for (const auto& [key, value] : graph.qnn) choice.qnn[key] = value;
  check_qnn_options(choice.qnn, "--qnn");
  choice.qnn_library = graph.qnn_library;
  choice.require_npu = graph.require_npu;
  choice.cpu_fallback = graph.cpu_fallback;
  choice.layout = graph.layout;
  choice.context_cache = graph.context_cache;
  choice.profile = graph.profile;
  choice.prefill = graph.prefill;
  choice.manifest = graph.manifest;
  choice.artifacts = graph.artifacts;
  return choice;
}

std::unique_ptr<Backend> open_graph_backend(const std::string& folder, const LoadOptions& options) {
  return std::make_unique<GraphBackend>(folder, options);
}

}  // namespace fathom
