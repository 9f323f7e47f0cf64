// The four-graph contract on the CPU provider, against the reference's outputs.
#include "graph/four_graph.h"

#include <algorithm>
#include <cmath>

#include "base/npy.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

std::unique_ptr<FourGraphModel> open(const std::string& folder, const GraphChoice& choice = {}) {
  return std::make_unique<FourGraphModel>(folder, read_four_graph_config(folder, choice.layout),
                                          choice);
}

Matrix logits_of(GraphDecoder& model, std::span<const int32_t> ids, int64_t first = 0) {
  const auto n = static_cast<int64_t>(ids.size());
  Matrix hidden(n, model.shape().hidden_size);
  model.feed(ids, first, hidden, nullptr);
  Matrix logits(n, model.shape().vocab_size);
  model.head(hidden, logits);
  return logits;
}

int32_t best(const Matrix& logits, int64_t row) {
  const float* values = logits.row(row);
  return static_cast<int32_t>(std::max_element(values, values + logits.cols()) - values);
}

double largest_difference(const float* a, const float* b, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest;
}

class FourGraph : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { REQUIRE_GRAPH_RUNTIME(); }
  TemporaryFolder folder_;
};

TEST_P(FourGraph, GivesTheReferencesLogits) {
  export_golden(GetParam(), folder_.path());
  const auto model = open(folder_.path());
  const auto ids = golden_ids(GetParam(), "input_ids");
  const NpyArray expected = read_npy(golden(GetParam()) + "/golden_logits.npy");
  const Matrix logits = logits_of(*model, ids);
  ASSERT_EQ(expected.values.size(), static_cast<size_t>(logits.rows() * logits.cols()));
  EXPECT_LT(
      largest_difference(logits.data(), expected.values.data(), logits.rows() * logits.cols()),
      1e-3);
}

TEST_P(FourGraph, ContinuesGreedilyAsTheReference) {
  export_golden(GetParam(), folder_.path());
  const auto model = open(folder_.path());
  const std::vector<int32_t> expected = golden_greedy(GetParam());
  std::vector<int32_t> ids(expected.begin(), expected.begin() + 12);
  Matrix logits = logits_of(*model, ids);
  int32_t next = best(logits, logits.rows() - 1);
  while (ids.size() < expected.size()) {
    ids.push_back(next);
    logits = logits_of(*model, std::span(&next, 1), static_cast<int64_t>(ids.size()) - 1);
    next = best(logits, 0);
  }
  EXPECT_EQ(ids, expected);
}

INSTANTIATE_TEST_SUITE_P(Models, FourGraph,
                         testing::Values("qwen2-tiny", "qwen2-tied", "llama3-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Windows and single tokens mixed in every way give the same rows.
class FourGraphPasses : public testing::Test {
 protected:
  void SetUp() override { REQUIRE_GRAPH_RUNTIME(); }
  TemporaryFolder folder_;
};

std::vector<int32_t> some_ids(int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * 89 + 7) % 261 + 2));
  return ids;
}

TEST_F(FourGraphPasses, WindowsEqualSingleTokens) {
  export_golden("qwen2-tiny", folder_.path());
  const auto windows = open(folder_.path());
  const auto singles = open(folder_.path());
  for (const int64_t n : {1, 38, 63, 64, 65, 128, 200}) {
    const std::vector<int32_t> ids = some_ids(n);
    const Matrix together = logits_of(*windows, ids);
    Matrix last;
    for (int64_t i = 0; i < n; ++i) {
      last = logits_of(*singles, std::span(ids).subspan(static_cast<size_t>(i), 1), i);
    }
    EXPECT_LT(largest_difference(together.row(n - 1), last.row(0), last.cols()), 1e-3) << n;
  }
}

TEST_F(FourGraphPasses, SmallWindowsGiveTheReferencesLogits) {
  export_golden("qwen2-tiny", folder_.path(), 48, 16);
  const auto model = open(folder_.path());
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  const Matrix logits = logits_of(*model, ids);
  EXPECT_LT(
      largest_difference(logits.data(), expected.values.data(), logits.rows() * logits.cols()),
      1e-3);
}

// What follows from a place where a window would reach behind the last row of keys and values.
TEST_F(FourGraphPasses, FillsKeysAndValuesToTheLastRow) {
  export_golden("qwen2-tiny", folder_.path(), 40, 16);
  const auto model = open(folder_.path());
  const auto ids = golden_ids("qwen2-tiny", "input_ids");  // 40 of them
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  logits_of(*model, std::span(ids).first(5));
  const Matrix rest = logits_of(*model, std::span(ids).subspan(5), 5);
  EXPECT_LT(largest_difference(rest.data(), expected.values.data() + 5 * rest.cols(),
                               rest.rows() * rest.cols()),
            1e-3);
  const std::string message = error_of([&] { logits_of(*model, std::span(ids).first(1), 40); });
  EXPECT_TRUE(contains(message, "41 tokens are more than the 40 rows")) << message;
}

// A second turn that shares only the beginning of the first one.
TEST_F(FourGraphPasses, GoesBackToAnEarlierPosition) {
  export_golden("qwen2-tiny", folder_.path());
  const auto model = open(folder_.path());
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  logits_of(*model, some_ids(100));
  logits_of(*model, std::span(ids).first(20));
  logits_of(*model, some_ids(70), 20);
  const Matrix rest = logits_of(*model, std::span(ids).subspan(20), 20);
  EXPECT_LT(largest_difference(rest.data(), expected.values.data() + 20 * rest.cols(),
                               rest.rows() * rest.cols()),
            1e-3);
}

// The driving rule that was published with the models reads the window's last row whatever the
// prompt's length, and goes on behind the window, so that pads are attended. It must not pass.
TEST_F(FourGraphPasses, ThePublishedDrivingRuleIsWrong) {
  export_golden("qwen2-tiny", folder_.path());
  const auto model = open(folder_.path());
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  const int64_t vocab = model->shape().vocab_size;
  const auto head_of = [&](int64_t row) {
    Matrix hidden(1, model->shape().hidden_size);
    std::copy_n(model->output_row(row).data(), hidden.cols(), hidden.row(0));
    Matrix logits(1, vocab);
    model->head(hidden, logits);
    return logits;
  };
  const auto prompt = std::span(ids).first(38);
  model->context_pass(prompt, 63);
  EXPECT_LT(largest_difference(head_of(37).data(), expected.values.data() + 37 * vocab, vocab),
            1e-3);
  EXPECT_GT(largest_difference(head_of(63).data(), expected.values.data() + 37 * vocab, vocab),
            0.1);
  model->iteration_pass(ids[38], 64);
  EXPECT_GT(largest_difference(head_of(0).data(), expected.values.data() + 38 * vocab, vocab), 0.1);
  model->context_pass(prompt, 63);
  model->iteration_pass(ids[38], 38);
  EXPECT_LT(largest_difference(head_of(0).data(), expected.values.data() + 38 * vocab, vocab),
            1e-3);
}

TEST_F(FourGraphPasses, WorksWithOneSessionAtATime) {
  export_golden("qwen2-tiny", folder_.path());
  auto document = nlohmann::json::parse(read_text(folder_ / "genai_config.json"));
  auto& pipeline = document["model"]["decoder"]["pipeline"];
  pipeline[1]["context"]["reset_session_idx"] = 2;
  pipeline[2]["iteration"]["reset_session_idx"] = 1;
  OutputFile file(folder_ / "genai_config.json");
  file.write(document.dump());
  file.commit();
  const auto model = open(folder_.path());
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const NpyArray expected = read_npy(golden("qwen2-tiny") + "/golden_logits.npy");
  logits_of(*model, std::span(ids).first(38));
  EXPECT_EQ(model->graphs().size(), 3U);
  const Matrix next = logits_of(*model, std::span(ids).subspan(38, 1), 38);
  EXPECT_EQ(model->graphs().size(), 3U);
  EXPECT_LT(largest_difference(next.data(), expected.values.data() + 38 * next.cols(), next.cols()),
            1e-3);
}

TEST_F(FourGraphPasses, TakesTheFilesWithoutAConfiguration) {
  export_golden("qwen2-tiny", folder_.path());
  std::filesystem::remove(folder_ / "genai_config.json");
  EXPECT_FALSE(graph_contract(folder_.path(), {}));
  GraphChoice choice;
  choice.layout = "four-graph";
  const auto model = open(folder_.path(), choice);
  const auto ids = golden_ids("qwen2-tiny", "input_ids");
  const Matrix logits = logits_of(*model, ids);
  EXPECT_EQ(best(logits, 39), golden_ids("qwen2-tiny", "argmax")[39]);
}

TEST_F(FourGraphPasses, SaysWhichProviderTookWhat) {
  export_golden("qwen2-tiny", folder_.path());
  const auto model = open(folder_.path());
  logits_of(*model, some_ids(2));
  const std::vector<std::string>& report = model->sessions().report();
  ASSERT_EQ(report.size(), 4U);
  EXPECT_TRUE(contains(report[1], "context: CPUExecutionProvider")) << report[1];
  EXPECT_TRUE(contains(report[1], "3 com.microsoft.GroupQueryAttention")) << report[1];
}

TEST_F(FourGraphPasses, RefusesWhatIsNotThere) {
  export_golden("qwen2-tiny", folder_.path());
  const auto fails = [&](const char* removed, const std::string& expected) {
    const std::filesystem::path path = folder_ / removed;
    const std::filesystem::path aside = folder_ / "aside";
    std::filesystem::rename(path, aside);
    const std::string message = error_of([&] { open(folder_.path()); });
    EXPECT_TRUE(contains(message, expected)) << removed << ": " << message;
    std::filesystem::rename(aside, path);
  };
  fails("decoder.bin", "decoder.bin (weights of context.onnx)");
  fails("iteration.onnx", "iteration.onnx (the iteration graph)");
  fails("lm_head.bin", "lm_head.bin (weights of lm_head.onnx)");
  GraphChoice choice;
  choice.require_npu = true;
  const std::string message = error_of([&] { open(folder_.path(), choice); });
  EXPECT_TRUE(contains(message, "the QNN provider is not there")) << message;
  choice.provider = Provider::cpu;
  EXPECT_TRUE(contains(error_of([&] { open(folder_.path(), choice); }), "is the opposite"));
}

TEST_F(FourGraphPasses, RefusesGraphsThatContradictTheConfiguration) {
  export_golden("qwen2-tiny", folder_.path());
  const auto original = nlohmann::json::parse(read_text(folder_ / "genai_config.json"));
  const auto message_with = [&](auto&& change) {
    auto document = original;
    change(document["model"]["decoder"]);
    OutputFile file(folder_ / "genai_config.json");
    file.write(document.dump());
    file.commit();
    return error_of([&] { open(folder_.path()); });
  };
  std::string message = message_with([](auto& decoder) { decoder["hidden_size"] = 256; });
  EXPECT_TRUE(contains(message, "hidden_size is 256, but the graphs have 128")) << message;
  message = message_with([](auto& decoder) { decoder["inputs"]["past_key_names"] = "keys_%d"; });
  EXPECT_TRUE(contains(message, "context.onnx: graph context: there is no input 'keys_0'"))
      << message;
}

}  // namespace
}  // namespace fathom
