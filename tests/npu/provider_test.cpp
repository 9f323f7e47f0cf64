// The way to the NPU, with a plugin that stands in for QNN's: registration, options, names,
// wrappers, who took what. In a program of its own, because a plugin stays registered.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/npy.h"
#include "graph/export/qhx_export.h"
#include "graph/inspection.h"
#include "graph/onnx/model_files.h"
#include "graph/qhexrt/context_wrapper.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr double kHalfTolerance = 2e-2;  // of float16 graphs

void write_file(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

double largest_error(GraphDecoder& model) {
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  const auto n = static_cast<int64_t>(ids.size());
  Matrix hidden(n, model.shape().hidden_size);
  model.feed(ids, 0, hidden, nullptr);
  Matrix logits(n, model.shape().vocab_size);
  model.head(hidden, logits);
  double largest = 0;
  for (int64_t i = 0; i < n * logits.cols(); ++i) {
    largest = std::max(
        largest,
        std::abs(logits.data()[i] - static_cast<double>(expected.values[static_cast<size_t>(i)])));
  }
  return largest;
}

class NpuProvider : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_GRAPH_RUNTIME(); }

  // A bundle whose contexts are named and wrapped like binaries.
  std::string bundle(int64_t shards) const {
    QhxExport options;
    options.out_folder = folder_ / "b";
    options.max_ctx = 64;
    options.shards = shards;
    options.prefill_rows = 16;
    export_qhx_bundle(Checkpoint::open(golden("qwen2-tiny")),
                      read_decoder_shape(golden("qwen2-tiny")), {}, options);
    const std::string v81 = folder_ / "b/v81";
    std::string manifest = read_text(v81 + "/manifest.json");
    for (const auto& entry : fs::directory_iterator(v81)) {
      const fs::path file = entry.path();
      if (file.extension() != ".onnx") continue;
      const std::string name = file.filename().string();
      fs::path binary = file;
      fs::rename(file, binary.replace_extension(".bin"));
      manifest.replace(manifest.find(name), name.size(), binary.filename().string());
    }
    write_file(v81 + "/manifest.json", manifest);
    return folder_ / "b";
  }

  GraphChoice choice() const {
    GraphChoice choice;
    choice.provider = Provider::qnn;
    choice.qnn_library = FATHOM_QNN_STAND_IN;
    choice.threads = 1;
    choice.qnn["profiling_file_path"] = told();
    return choice;
  }
  std::string told() const { return folder_ / "told"; }

  TemporaryFolder folder_;
};

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST_F(NpuProvider, RunsABundlesBinaries) {
  const std::string v81 = bundle(2) + "/v81";
  const std::set<std::string> before = names_in(v81);
  GraphChoice choice = this->choice();
  choice.require_npu = true;
  choice.qnn["htp_performance_mode"] = "burst";
  const auto model = open_graph_model(folder_ / "b", choice);
  EXPECT_LT(largest_error(*model), kHalfTolerance);
  for (const std::string& line : model->sessions().report()) {
    EXPECT_TRUE(contains(line, ": QNNExecutionProvider com.microsoft.EPContext")) << line;
  }
  const std::string told = read_text(this->told());
  EXPECT_TRUE(contains(told, "ep.qnnexecutionprovider.htp_performance_mode=burst")) << told;
  EXPECT_TRUE(contains(told, "graph decode from decode_p0.bin")) << told;
  EXPECT_TRUE(contains(told, "graph lmhead from lmhead.bin")) << told;
  EXPECT_EQ(names_in(v81), before);
}

TEST_F(NpuProvider, RunsAPrefillBinary) {
  bundle(1);
  GraphChoice choice = this->choice();
  choice.prefill = true;
  const auto model = open_graph_model(folder_ / "b", choice);
  EXPECT_LT(largest_error(*model), kHalfTolerance);
  EXPECT_TRUE(contains(read_text(told()), "graph prefill from prefill.bin"));
}

TEST_F(NpuProvider, InspectionFindsThePlugin) {
  bundle(1);
  const GraphInspection inspection = inspect_graphs(folder_ / "b", choice());
  EXPECT_TRUE(inspection.problems.empty()) << inspection.problems[0];
  EXPECT_TRUE(
      std::any_of(inspection.devices.begin(), inspection.devices.end(),
                  [](const GraphDevice& device) { return device.provider == kQnnProvider; }));
}

// Four graphs of which the decoders are compiled, as they are published.
TEST_F(NpuProvider, SharesFourGraphsWithTheCpu) {
  const std::string out = folder_ / "m";
  export_golden("qwen2-tiny", out, 64, 16);
  for (const char* name : {"context", "iteration"}) {
    const std::string file = out + "/" + name + ".onnx";
    const std::string binary = out + "/" + name + "_qnn.bin";
    const onnx::ModelFiles original = onnx::read_model_files(file);
    fs::rename(file, binary);
    write_context_wrapper({name, binary, "", original.inputs, original.outputs}, out);
  }
  GraphChoice choice = this->choice();
  choice.require_npu = true;
  const auto model = open_graph_model(out, choice);
  EXPECT_LT(largest_error(*model), 1e-3);
  const std::vector<std::string>& report = model->sessions().report();
  ASSERT_EQ(report.size(), 4U);
  EXPECT_EQ(report[0], "embeddings: CPUExecutionProvider Gather (expected there)");
  EXPECT_EQ(report[1], "context: QNNExecutionProvider com.microsoft.EPContext");
  EXPECT_TRUE(contains(read_text(told()), "ep.share_ep_contexts=1"));
}

TEST_F(NpuProvider, TellsWhatFellBackToTheCpu) {
  const std::string out = folder_ / "m";
  export_golden("qwen2-tiny", out, 64, 16);
  GraphChoice choice = this->choice();
  const auto model = open_graph_model(out, choice);
  const std::string context = model->sessions().report()[1];
  EXPECT_TRUE(contains(context, "3 com.microsoft.GroupQueryAttention (expected there)")) << context;
  EXPECT_TRUE(contains(context, "UNEXPECTED on the CPU: 13 Add")) << context;
  choice.require_npu = true;
  const std::string message = error_of([&] { open_graph_model(out, choice); });
  EXPECT_TRUE(contains(message, "QNN took nothing of this graph")) << message;
  choice.require_npu = false;
  choice.cpu_fallback = false;
  EXPECT_TRUE(contains(error_of([&] { open_graph_model(out, choice); }), "fallback"));
}

TEST_F(NpuProvider, NamesBothReleasesWhereTheyDiffer) {
  const std::string v81 = bundle(1) + "/v81/";
  write_file(v81 + "decode_f16.bin", "other release v2.28.0.241029232508_102474");
  write_file(folder_ / "libQnnHtp.so", "..v2.31.0.250130151446_114721");
  GraphChoice choice = this->choice();
  choice.qnn["backend_path"] = folder_ / "libQnnHtp.so";
  const std::string message = error_of([&] { open_graph_model(folder_ / "b", choice); });
  EXPECT_TRUE(contains(message, "error 1008")) << message;
  EXPECT_TRUE(contains(message, "made by QNN 2.28.0.241029232508")) << message;
  EXPECT_TRUE(contains(message, "QNN 2.31.0.250130151446")) << message;
}

TEST_F(NpuProvider, AFileThatIsNoPluginIsRefused) {
  bundle(1);
  write_file(folder_ / "plugin.so", "nothing");
  GraphChoice choice = this->choice();
  choice.qnn_library = folder_ / "plugin.so";
  const std::string message = error_of([&] { open_graph_model(folder_ / "b", choice); });
  EXPECT_TRUE(contains(message, "plugin.so") && contains(message, "cannot be registered"))
      << message;
}

}  // namespace
}  // namespace fathom
