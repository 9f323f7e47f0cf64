// Models of graphs from the command line: exported, looked at, run.
#include "tests/cli/program.h"
#include "tests/paths.h"

namespace fathom {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Tokens of the reference's greedy continuation.
std::string greedy(size_t begin, size_t end, const char* separator) {
  std::string text;
  const auto ids = nlohmann::json::parse(file_text(golden("qwen2-tiny") + "/golden_greedy.json"));
  for (size_t i = begin; i < end; ++i) {
    text += (i > begin ? separator : "") + std::to_string(ids[i].get<int>());
  }
  return text;
}

class GraphCommands : public testing::Test {
 protected:
  Finished generate(std::vector<std::string> more) const {
    std::vector<std::string> line = {"generate", "--tokens", greedy(0, 12, ","), "-n", "5",
                                     "--temp",   "0",        "--threads",        "1"};
    line.insert(line.end(), more.begin(), more.end());
    return run(line);
  }
  static bool no_runtime(const Finished& finished) {
    return has(finished.err, "ONNX Runtime, which runs graphs, was not found") ||
           has(finished.out + finished.err, "was built without ONNX Runtime");
  }
  TemporaryFolder folder_;
};

TEST_F(GraphCommands, ExportInspectAndRunFourGraphs) {
  const std::string graphs = folder_ / "g";
  const Finished exported = run({"export-onnx", "--model", golden("qwen2-tiny"), "--out", graphs,
                                 "--max-len", "64", "--window", "16", "--json"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.json().at("files"), 9);
  const Finished inspected = run({"inspect", graphs, "--json"});
  const nlohmann::json document = inspected.json();
  EXPECT_EQ(document.at("contract"), "four graphs");
  EXPECT_EQ(document.at("graphs").at(1).at("inputs").at(0).at("shape"),
            nlohmann::json::array({1, 16, 128}));
  EXPECT_EQ(document.at("graphs").at(0).at("inputs").at(0).at("type"), "int64");
  EXPECT_TRUE(document.at("platform").contains("emulated"));
  const Finished finished = generate({"--model", graphs});
  if (no_runtime(finished)) GTEST_SKIP() << finished.err;
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, greedy(12, 17, " ") + "\n");
  EXPECT_TRUE(has(finished.err, "context: CPUExecutionProvider")) << finished.err;
  EXPECT_TRUE(has(finished.err, "3 com.microsoft.GroupQueryAttention")) << finished.err;
}

TEST_F(GraphCommands, ExportInspectAndRunABundle) {
  const std::string bundle = folder_ / "b";
  const Finished exported = run({"export-qhx", "--model", golden("qwen2-tiny"), "--out", bundle,
                                 "--max-ctx", "64", "--shards", "3", "--dsp-arch", "v79"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Finished inspected = run({"inspect", bundle});
  EXPECT_TRUE(has(inspected.out, "decode_p2: ")) << inspected.out;
  EXPECT_TRUE(has(inspected.out, "in   past_k_2 float16 [64,32]")) << inspected.out;
  for (const std::string& model : {bundle, bundle + "/v79"}) {
    const Finished finished = generate({"--model", model, "--prefill"});
    if (no_runtime(finished)) GTEST_SKIP() << finished.err;
    EXPECT_EQ(finished.out, greedy(12, 17, " ") + "\n") << finished.err;
  }
  const Finished wrong = generate({"--model", bundle, "--qnn", "htp_arch=81"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_TRUE(has(wrong.err, "there is no folder for Hexagon v81; there are v79")) << wrong.err;
}

Finished qhx(const std::vector<std::string>& arguments) {
  return Program(arguments, "", "", test_paths::qhx_generate()).wait();
}

TEST_F(GraphCommands, TheCardsCommandLine) {
  const std::string model = folder_ / "model";
  std::filesystem::copy(golden("qwen2-tiny"), model);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy(test_paths::models() + "/random/" + name, model + "/" + name);
  }
  const std::string bundle = folder_ / "b";
  ASSERT_EQ(run({"export-qhx", "--model", model, "--out", bundle, "--max-ctx", "64"}).code, 0);
  const std::string root = bundle + "/v81";
  // The manifest need not lie beside its files.
  std::filesystem::rename(root + "/manifest.json", folder_ / "plan.json");
  const std::string manifest = folder_ / "plan.json";
  const Finished finished = qhx({manifest, "-", "-", root, "6", "Hello"});
  if (no_runtime(finished)) GTEST_SKIP() << finished.err;
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_TRUE(has(finished.err, "6 tokens")) << finished.err;
  std::filesystem::copy(manifest, root + "/manifest.json");
  const Finished same = run({"generate", "--model", bundle, "--prompt", "Hello", "-n", "6",
                             "--temp", "0", "--threads", "1"});
  EXPECT_EQ(finished.out, same.out);

  const auto refused = [&](const std::vector<std::string>& line, int code,
                           const std::string& expected) {
    const Finished wrong = qhx(line);
    EXPECT_EQ(wrong.code, code) << wrong.err;
    EXPECT_TRUE(has(wrong.err, expected)) << wrong.err;
  };
  refused({manifest, "-", "-", root, "6"}, 2, "5 arguments are given, 6 are expected");
  refused({manifest, "-", "-", root, "six", "Hello"}, 2, "N_TOKENS");
  refused({manifest, "-", "libQnnSystem.so", root, "6", "Hello"}, 2, "- stands for both");
  refused({manifest, "a/libQnnHtp.so", "a/libother.so", root, "6", "Hello"}, 2, "LIBQNNSYSTEM");
  std::filesystem::create_directory(folder_ / "a");
  std::filesystem::create_directory(folder_ / "c");
  std::ofstream(folder_ / "a/libQnnHtp.so");
  std::ofstream(folder_ / "c/libQnnSystem.so");
  refused({manifest, folder_ / "a/libQnnHtp.so", folder_ / "c/libQnnSystem.so", root, "6", "Hello"},
          1, "does not lie beside");
  std::ofstream(folder_ / "a/libQnnSystem.so");
  refused({manifest, folder_ / "a/libQnnHtp.so", folder_ / "a/libQnnSystem.so", root, "6", "Hello"},
          1, "the QNN provider is not there");
  refused({manifest, "-", "-", folder_ / "a", "6", "Hello"}, 1, "files that it names are missing");
}

TEST_F(GraphCommands, TheSelfCheckTellsWhatIsDifferentOrMissing) {
  const std::string model = folder_ / "model";
  std::filesystem::copy(golden("qwen2-tiny"), model);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::filesystem::copy(test_paths::models() + "/random/" + name, model + "/" + name);
  }
  ASSERT_EQ(run({"export-qhx", "--model", model, "--out", folder_ / "b", "--max-ctx", "96"}).code,
            0);
  const Finished missing = run({"npu-check", folder_ / "b"});
  if (no_runtime(missing)) GTEST_SKIP() << missing.err;
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(has(missing.err, "the QNN provider is not there")) << missing.err;
  EXPECT_TRUE(has(missing.out, "QNN plugin    not found")) << missing.out;
  const Finished rehearsed = run({"npu-check", folder_ / "b", "--provider", "cpu", "--json"});
  EXPECT_EQ(rehearsed.code, 1) << rehearsed.err;  // weights are random
  const nlohmann::json check = rehearsed.json().at("check");
  EXPECT_EQ(check.at("given").size(), 10U);
  EXPECT_GT(check.at("ms_per_token"), 0.0);
  EXPECT_FALSE(check.at("answer_right").get<bool>());
}

TEST_F(GraphCommands, RefusesOptionsThatAreNone) {
  const auto refused = [&](std::vector<std::string> options, const std::string& expected) {
    options.insert(options.end(), {"--model", golden("qwen2-tiny")});
    const Finished finished = generate(options);
    EXPECT_EQ(finished.code, 2) << expected;
    EXPECT_TRUE(has(finished.err, expected)) << finished.err;
  };
  refused({"--qnn", "htp_mode=burst"}, "has no option 'htp_mode'");
  refused({"--qnn", "htp_performance_mode=fast"}, "not one of burst");
  refused({"--provider", "npu"}, "--provider: 'npu' is none of cpu, qnn");
  refused({"--qnn", "help"}, "htp_graph_finalization_optimization_mode");
}

}  // namespace
}  // namespace fathom
