// What the exporter writes.
#include <cmath>
#include <cstdlib>

#include "graph/export/decoder_graph.h"
#include "graph/onnx/model_files.h"
#include "numerics/half.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

std::string quoted(const std::string& path) { return "'" + path + "'"; }

TEST(Export, PassesTheFormatsChecker) {
  // Debian's python3-onnx belongs to Debian's python.
  if (std::system("/usr/bin/python3 -c 'import onnx' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-onnx is not installed";
  }
  TemporaryFolder folder;
  export_golden("qwen2-tiny", folder.path());
  std::string command = "/usr/bin/python3 " + quoted(golden("../graph/check_onnx.py"));
  for (const char* name : {"embeddings", "context", "iteration", "lm_head"}) {
    command += " " + quoted(folder / (std::string(name) + ".onnx"));
  }
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Export, NamesItsDataFiles) {
  TemporaryFolder folder;
  export_golden("qwen2-tiny", folder.path());
  const onnx::ModelFiles files = onnx::read_model_files(folder / "context.onnx");
  EXPECT_EQ(files.data_files, std::vector<std::string>{"decoder.bin"});
  EXPECT_TRUE(files.contexts.empty());
}

TEST(Export, RefusesToWriteOverAnother) {
  TemporaryFolder folder;
  export_golden("qwen2-tiny", folder.path());
  EXPECT_TRUE(contains(error_of([&] { export_golden("qwen2-tiny", folder.path()); }),
                       "embeddings.onnx is there already"));
}

TEST(Export, RefusesWhatItCannotExpress) {
  TemporaryFolder folder;
  const auto message_with = [&](const char* field, const nlohmann::json& value) {
    auto config = nlohmann::json::parse(read_text(golden("qwen2-tiny") + "/config.json"));
    config[field] = value;
    OutputFile file(folder / "config.json");
    file.write(config.dump());
    file.commit();
    return error_of([&] { read_decoder_shape(folder.path()); });
  };
  EXPECT_TRUE(contains(message_with("use_sliding_window", true), "use_sliding_window"));
  EXPECT_TRUE(contains(message_with("architectures", {"DeepseekV3ForCausalLM"}),
                       "DeepseekV3ForCausalLM cannot be exported"));
  EXPECT_TRUE(contains(message_with("rope_scaling", {{"type", "linear"}, {"factor", 4}}),
                       "rope_scaling: this type cannot be exported"));
  EXPECT_TRUE(contains(message_with("num_key_value_heads", 3), "num_key_value_heads"));
}

TEST(Export, NamesTheTensorThatIsNotThere) {
  TemporaryFolder folder;
  TemporaryFolder out;
  std::filesystem::copy(golden("qwen2-tied"), folder.path());
  auto config = nlohmann::json::parse(read_text(folder / "config.json"));
  config["tie_word_embeddings"] = false;
  OutputFile file(folder / "config.json");
  file.write(config.dump());
  file.commit();
  FourGraphExport options;
  options.out_folder = out / "model";
  const std::string message = error_of([&] {
    export_four_graphs(Checkpoint::open(folder.path()), read_decoder_shape(folder.path()), {},
                       options);
  });
  EXPECT_TRUE(contains(message, "there is no tensor lm_head.weight")) << message;
  EXPECT_FALSE(std::filesystem::exists(out / "model/genai_config.json"));
}

TEST(OnnxFiles, RefusesWhatIsNoModel) {
  TemporaryFolder folder;
  const auto message_of = [&](const std::string& bytes) {
    OutputFile file(folder / "m.onnx");
    file.write(bytes);
    file.commit();
    return error_of([&] { onnx::read_model_files(folder / "m.onnx"); });
  };
  EXPECT_TRUE(contains(message_of(""), "there is no graph"));
  EXPECT_TRUE(contains(message_of("{\"a\": 1}"), "no ONNX model"));
  EXPECT_TRUE(contains(message_of("\x3a\xff\xff\x7f"), "no ONNX model"));
  TemporaryFolder model;
  export_golden("qwen2-tiny", model.path());
  const std::string whole = read_text(model / "context.onnx");
  EXPECT_TRUE(contains(message_of(whole.substr(0, whole.size() / 2)), "no ONNX model"));
}

// Scores of float16 with keys of magnitude 400, which Qwen2 has: scaled after the product they
// overflow, with the scale inside q they do not.
float score(bool fold) {
  constexpr int64_t kDim = 128;
  onnx::GraphWriter writer("scores");
  writer.input({"q", ElementType::f16, {1, kDim}});
  writer.input({"k", ElementType::f16, {kDim, 1}});
  writer.output({"s", ElementType::f16, {1, 1}});
  const float scale = 1 / std::sqrt(static_cast<float>(kDim));
  const std::string factor = writer.node(
      "Cast", {writer.constant("scale", std::vector{scale}, {1})}, {{"to", int64_t{10}}});
  if (fold) {
    writer.node("MatMul", {writer.node("Mul", {"q", factor}), "k"}, {}, "s");
  } else {
    writer.node("Mul", {writer.node("MatMul", {"q", "k"}), factor}, {}, "s");
  }
  TemporaryFolder folder;
  writer.write(folder / "scores.onnx");
  SessionRequest request;
  request.name = "scores";
  request.file = folder / "scores.onnx";
  GraphRunner runner("scores", request.file, load_graph_runtime({})->open(request));
  std::vector<uint16_t> q(kDim, float_to_fp16(6));
  std::vector<uint16_t> k(kDim, float_to_fp16(400));
  uint16_t s = 0;
  runner.bind_input({"q", ElementType::f16, {1, kDim}, q.data()});
  runner.bind_input({"k", ElementType::f16, {kDim, 1}, k.data()});
  runner.bind_output({"s", ElementType::f16, {1, 1}, &s});
  runner.run();
  return fp16_to_float(s);
}

TEST(Export, FoldingTheScaleIntoQKeepsFloat16Finite) {
  REQUIRE_GRAPH_RUNTIME();
  constexpr float kExact = 6 * 400 * 128 / 11.3137085f;
  EXPECT_NEAR(score(true), kExact, kExact * 2e-3);
  EXPECT_TRUE(std::isinf(score(false))) << score(false);
}

// And the exporter does fold: its attention multiplies by 1, its q is that of the checkpoint
// divided by sqrt(head_dim).
TEST(Export, FoldsTheScaleIntoQ) {
  TemporaryFolder folder;
  const Checkpoint checkpoint = Checkpoint::open(golden("qwen2-tiny"));
  const DecoderShape shape = read_decoder_shape(golden("qwen2-tiny"));
  WeightFile file(folder.path(), "w.bin", ElementType::f32);
  const auto tensors = export_layer_weights(checkpoint, shape, 1, file, nullptr);
  file.commit();
  const std::string written = read_text(folder / "w.bin");
  const auto value = [&](const std::string& name, int64_t index) {
    for (const auto& tensor : tensors) {
      if (tensor.name != name) continue;
      float result;
      std::memcpy(&result, written.data() + tensor.offset + static_cast<size_t>(index) * 4, 4);
      return result;
    }
    ADD_FAILURE() << name;
    return 0.0f;
  };
  const auto stored = [&](const std::string& name, int64_t index) {
    const TensorInfo* info = checkpoint.find(name);
    std::vector<std::byte> bytes(info->bytes);
    checkpoint.read(*info, bytes);
    return stored_values(*info, bytes)(index);
  };
  const std::string q = "model.layers.1.self_attn.q_proj.";
  // [out, in] row 3, column 5 is row 5, column 3 of what MatMul takes.
  EXPECT_FLOAT_EQ(value(q + "weight", 5 * 128 + 3), stored(q + "weight", 3 * 128 + 5) / 4);
  EXPECT_FLOAT_EQ(value(q + "bias", 7), stored(q + "bias", 7) / 4);
  const std::string k = "model.layers.1.self_attn.k_proj.weight";
  EXPECT_EQ(value(k, 5 * 32 + 3), stored(k, 3 * 128 + 5));
}

}  // namespace
}  // namespace fathom
