// QHexRT bundles whose contexts are ONNX files, on the CPU provider.
#include <algorithm>
#include <cmath>

#include "base/npy.h"
#include "graph/export/qhx_export.h"
#include "graph/onnx/model_files.h"
#include "graph/qhexrt/bundle.h"
#include "graph/qhexrt/context_wrapper.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

// float16 between and inside the graphs: ten bits of every value, over three layers.
constexpr double kHalfTolerance = 2e-2;

void export_bundle(const std::string& out, int64_t shards = 1, int64_t prefill_rows = 16) {
  QhxExport options;
  options.out_folder = out;
  options.max_ctx = 64;
  options.shards = shards;
  options.prefill_rows = prefill_rows;
  GenerationConfig generation;
  generation.eos_token_ids = {1};
  generation.bos_token_id = 0;
  export_qhx_bundle(Checkpoint::open(golden("qwen2-tiny")),
                    read_decoder_shape(golden("qwen2-tiny")), generation, options);
}

Matrix logits_of(GraphDecoder& model, std::span<const int32_t> ids, int64_t first = 0) {
  const auto n = static_cast<int64_t>(ids.size());
  Matrix hidden(n, model.shape().hidden_size);
  model.feed(ids, first, hidden, nullptr);
  Matrix logits(n, model.shape().vocab_size);
  model.head(hidden, logits);
  return logits;
}

double largest_error(const Matrix& logits) {
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  double largest = 0;
  for (int64_t i = 0; i < logits.rows() * logits.cols(); ++i) {
    largest = std::max(
        largest,
        std::abs(logits.data()[i] - static_cast<double>(expected.values[static_cast<size_t>(i)])));
  }
  return largest;
}

class Qhexrt : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_GRAPH_RUNTIME(); }
  TemporaryFolder folder_;
};

TEST_F(Qhexrt, GivesTheReferencesLogitsInEveryForm) {
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  struct Form {
    const char* name;
    int64_t shards;
    bool prefill;
  };
  for (const Form& form :
       {Form{"whole", 1, false}, Form{"sharded", 2, false}, Form{"layer by layer", 3, false},
        Form{"prefill", 1, true}, Form{"sharded, prefill", 3, true}}) {
    const std::string bundle = folder_ / form.name;
    export_bundle(bundle, form.shards);
    GraphChoice choice;
    choice.prefill = form.prefill;
    const auto model = open_graph_model(bundle, choice);
    EXPECT_EQ(model->graphs().size(), static_cast<size_t>(form.shards + 1 + form.prefill));
    EXPECT_LT(largest_error(logits_of(*model, ids)), kHalfTolerance) << form.name;
  }
}

TEST_F(Qhexrt, ContinuesGreedilyAsTheReference) {
  export_bundle(folder_ / "b");
  const auto model = open_graph_model(folder_ / "b", {});
  const std::vector<int32_t> expected = golden_greedy("qwen2-tiny");
  std::vector<int32_t> ids(expected.begin(), expected.begin() + 12);
  Matrix logits = logits_of(*model, ids);
  while (ids.size() < expected.size()) {
    const float* row = logits.row(logits.rows() - 1);
    const auto next = static_cast<int32_t>(std::max_element(row, row + logits.cols()) - row);
    ids.push_back(next);
    logits = logits_of(*model, std::span(&next, 1), static_cast<int64_t>(ids.size()) - 1);
  }
  EXPECT_EQ(ids, expected);
}

// The mask decides what is seen: with the current slot open, whatever lies there counts as past.
TEST_F(Qhexrt, TheMaskSwitchOfTheManifestCounts) {
  export_bundle(folder_ / "b");
  const std::string path = folder_ / "b/v81/manifest.json";
  auto document = nlohmann::json::parse(read_text(path));
  document["plan"]["cmask_includes_current"] = true;
  OutputFile file(path);
  file.write(document.dump());
  file.commit();
  const auto model = open_graph_model(folder_ / "b", {});
  EXPECT_GT(largest_error(logits_of(*model, golden_ids("qwen2-tiny", "input_ids"))), 0.1);
}

TEST_F(Qhexrt, StopsAtTheLastPosition) {
  export_bundle(folder_ / "b");
  const auto model = open_graph_model(folder_ / "b", {});
  const std::vector<int32_t> ids(65, 5);
  EXPECT_TRUE(contains(error_of([&] { logits_of(*model, ids); }),
                       "65 tokens are more than the 64 positions (max_ctx)"));
  EXPECT_NO_THROW(logits_of(*model, std::span(ids).first(64)));
}

TEST_F(Qhexrt, RefusesWhatIsDamaged) {
  export_bundle(folder_ / "b", 2);
  const std::string v81 = folder_ / "b/v81/";
  const auto message = [&] { return error_of([&] { open_graph_model(folder_ / "b", {}); }); };
  fs::rename(v81 + "decode_p1_f16.onnx", v81 + "aside");
  EXPECT_TRUE(contains(message(), "decode_p1_f16.onnx (decode shard 2 of 2)")) << message();
  fs::rename(v81 + "aside", v81 + "decode_p1_f16.onnx");
  const uint64_t whole = fs::file_size(v81 + "embed_f16.bin");
  fs::resize_file(v81 + "embed_f16.bin", whole - 2);
  EXPECT_TRUE(contains(message(),
                       "embed_f16.bin: 67326 bytes, but 263 x 128 values of float16 are "
                       "67328"))
      << message();
  fs::resize_file(v81 + "embed_f16.bin", whole);
  const std::string manifest = read_text(v81 + "manifest.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    OutputFile file(v81 + "manifest.json");
    file.write(text.replace(at, from.size(), to));
    file.commit();
    return message();
  };
  EXPECT_TRUE(contains(with("\"n_layers\": 3", "\"n_layers\": 4"),
                       "params.n_layers is 4, but the decode graphs have 3 together"));
  EXPECT_TRUE(contains(with("\"max_ctx\": 64", "\"max_ctx\": 128"),
                       "graph decode_p0: tensor cmask: the graph has shape [64] and not [128]"));
  EXPECT_TRUE(contains(with("\"dsp_arch\": \"v81\"", "\"dsp_arch\": \"v79\""),
                       "model.dsp_arch is v79, but the folder is v81"));
  EXPECT_TRUE(contains(with("decode_p1_f16.onnx", "lmhead_f16.onnx"),
                       "tensors that the contract does not know"));
}

TEST_F(Qhexrt, ChoosesTheFolderOfTheArchitecture) {
  export_bundle(folder_ / "b");
  GraphChoice choice;
  choice.qnn["htp_arch"] = "73";
  EXPECT_TRUE(contains(error_of([&] { find_qhexrt_manifest(folder_ / "b", choice.qnn); }),
                       "there is no folder for Hexagon v73; there are v81"));
  choice.qnn["htp_arch"] = "81";
  EXPECT_EQ(find_qhexrt_manifest(folder_ / "b", choice.qnn), folder_ / "b/v81/manifest.json");
  EXPECT_EQ(find_qhexrt_manifest(folder_ / "b/v81", {}), folder_ / "b/v81/manifest.json");
  fs::copy(folder_ / "b/v81", folder_ / "b/v73");
  EXPECT_TRUE(contains(error_of([&] { find_qhexrt_manifest(folder_ / "b", {}); }),
                       "there are folders for v73, v81"));
  EXPECT_EQ(find_qhexrt_manifest(golden("qwen2-tiny"), {}), "");
}

const char* const kManifest = R"({"schema_version": 1, "extra": {"a": [1]},
 "model": {"name": "m", "dsp_arch": "v81", "soc_model": 87},
 "params": {"hidden": 8, "vocab": 10, "n_layers": 4, "max_ctx": 32, "kv_dim": 4, "head_dim": 2,
            "eos_token_id": [1, 2]},
 "artifacts": {"contexts": {"decode": {"shards": ["p0.bin", {"bin": "p1.bin", "layers": 3}]},
   "prefill": {"bin": "pre.bin"}, "lmhead": {"bin": "l.bin"}}, "embed": "e.bin",
   "tokenizer": "tokenizer.json"},
 "plan": {"decode": {"graph": "dec"}, "lmhead": "head"}, "chat": {"bos": [0]}})";

TEST(QhexrtManifest, ReadsWhatItNeeds) {
  const QhexrtManifest manifest = parse_qhexrt_manifest(kManifest, "m.json");
  ASSERT_EQ(manifest.decode.size(), 2U);
  EXPECT_EQ(manifest.decode[1].file, "p1.bin");
  EXPECT_EQ(manifest.decode[1].layers, 3);
  EXPECT_EQ(manifest.decode[0].graph, "dec");
  EXPECT_EQ(manifest.lmhead.graph, "head");
  EXPECT_EQ(manifest.dsp_arch, 81);
  EXPECT_EQ(manifest.rope_theta, 10000);
  EXPECT_EQ(manifest.eos_ids, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(manifest.decode[0].is_binary());
  EXPECT_FALSE(manifest.cmask_includes_current);
  EXPECT_TRUE(contains(error_of([&] {
                         check_qhexrt_target(manifest, {{"soc_model", "60"}});
                       }),
                       "made for Hexagon v81, and this device is v73"));
  EXPECT_TRUE(
      contains(error_of([&] {
                 check_qhexrt_target(manifest, {{"soc_model", "88"}});
               }),
               "made for soc_model 87 (Snapdragon SM8850), and this device is soc_model 88"));
}

TEST(QhexrtManifest, NamesWhatIsWrong) {
  const auto fails = [](const std::string& from, const std::string& to,
                        const std::string& expected) {
    std::string text = kManifest;
    text.replace(text.find(from), from.size(), to);
    const std::string message = error_of([&] { parse_qhexrt_manifest(text, "m.json"); });
    EXPECT_TRUE(contains(message, "m.json") && contains(message, expected)) << message;
  };
  fails("\"schema_version\": 1", "\"schema_version\": 2", "schema_version");
  fails("\"hidden\": 8", "\"hidden\": \"8\"", "params.hidden");
  fails("\"head_dim\": 2", "\"head_dim\": 3", "params.head_dim");
  fails("\"v81\"", "\"hexagon\"", "model.dsp_arch");
  fails("\"embed\": \"e.bin\",", "", "artifacts.embed");
  fails("{\"bin\": \"l.bin\"}", "3", "artifacts.contexts.lmhead");
  fails("[\"p0.bin\", {\"bin\": \"p1.bin\", \"layers\": 3}]", "[]",
        "artifacts.contexts.decode.shards: there is none");
  fails("\"bos\": [0]", "\"bos\": [\"a\"]", "chat.bos");
}

TEST(ContextWrapper, NamesTheBinaryWithoutLeavingItsFolder) {
  TemporaryFolder bundle;
  TemporaryFolder work;
  OutputFile binary(bundle / "m_decode_f16.bin");
  binary.write("context");
  binary.commit();
  const std::string path = write_context_wrapper({"decode",
                                                  bundle / "m_decode_f16.bin",
                                                  "dec",
                                                  {{"x", ElementType::f16, {1, 8}}},
                                                  {{"y", ElementType::f16, {1, 8}}}},
                                                 work.path());
  const onnx::ModelFiles files = onnx::read_model_files(path);
  ASSERT_EQ(files.contexts.size(), 1U);
  EXPECT_EQ(files.contexts[0].name, "dec");
  EXPECT_EQ(files.contexts[0].source, "Qnn");
  EXPECT_EQ(files.contexts[0].file, "decode.bin");
  EXPECT_EQ(read_text(work / "decode.bin"), "context");
  EXPECT_EQ(bundle.count(), 1);
}

TEST_F(Qhexrt, BinariesNeedTheNpu) {
  export_bundle(folder_ / "b");
  const std::string v81 = folder_ / "b/v81/";
  std::string manifest = read_text(v81 + "manifest.json");
  fs::copy(v81 + "decode_f16.onnx", v81 + "decode_f16.bin");
  manifest.replace(manifest.find("decode_f16.onnx"), 15, "decode_f16.bin");
  OutputFile file(v81 + "manifest.json");
  file.write(manifest);
  file.commit();
  const std::string message = error_of([&] { open_graph_model(folder_ / "b", {}); });
  EXPECT_TRUE(contains(message, "QNN binaries, which run on a Hexagon NPU only")) << message;
  EXPECT_TRUE(contains(message, "no QNN provider")) << message;
}

}  // namespace
}  // namespace fathom
