// The commands that need no tokenizer, against values of the reference implementation.
#include <algorithm>
#include <cmath>

#include "base/npy.h"
#include "tests/cli/program.h"

namespace fathom {
namespace {

constexpr float kTolerance = 2e-4f;
constexpr size_t kPromptTokens = 12;

std::string join_ids(const nlohmann::json& ids, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(ids[i].get<int>());
  return text;
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(file_text(path)); }

void expect_near(const std::string& actual_path, const std::string& expected_path) {
  const NpyArray actual = read_npy(actual_path), expected = read_npy(expected_path);
  ASSERT_EQ(actual.values.size(), expected.values.size());
  float worst = 0;
  for (size_t i = 0; i < actual.values.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual.values[i]));
    worst = std::max(worst, std::fabs(actual.values[i] - expected.values[i]));
  }
  EXPECT_LT(worst, kTolerance);
}

class CliGolden : public testing::TestWithParam<const char*> {
 protected:
  std::string model() const { return golden(GetParam()); }
};

TEST_P(CliGolden, GreedyIdsAreTheReferences) {
  const nlohmann::json ids = read_json(model() + "/golden_greedy.json");
  const std::string count = std::to_string(ids.size() - kPromptTokens);
  const Finished run_json =
      run({"generate", "--model", model(), "--tokens", join_ids(ids, kPromptTokens), "--kv", "f32",
           "--temp", "0", "-n", count, "--ignore-eos", "--json"});
  ASSERT_EQ(run_json.code, 0) << run_json.err;
  const nlohmann::json result = run_json.json();
  const nlohmann::json expected(std::vector<int>(ids.begin() + kPromptTokens, ids.end()));
  EXPECT_EQ(result["token_ids"], expected);
  EXPECT_EQ(result["usage"]["prompt_tokens"], kPromptTokens);
}

TEST_P(CliGolden, LogitsAndHiddenStatesAreTheReferences) {
  const TemporaryFolder folder;
  const nlohmann::json ids = read_json(model() + "/golden.json")["input_ids"];
  const Finished finished =
      run({"logits", "--model", model(), "--tokens", join_ids(ids, ids.size()), "--kv", "f32",
           "--out", folder / "l.npy", "--hidden", folder / "h.npy", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.json()["rows"], ids.size());
  EXPECT_EQ(finished.json()["argmax"], read_json(model() + "/golden.json")["argmax"]);
  EXPECT_EQ(finished.json()["files"].size(), 2u);
  expect_near(folder / "l.npy", model() + "/golden_logits.npy");
  expect_near(folder / "h.npy", model() + "/golden_hidden.npy");
  EXPECT_EQ(folder.count(), 2);
}

INSTANTIATE_TEST_SUITE_P(Models, CliGolden,
                         testing::Values("r1-tiny", "r1-yarn-short", "r1-no-qlora-linear"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CliLogits, MtpAndFarPositions) {
  const TemporaryFolder folder;
  const std::string model = golden("r1-tiny");
  const nlohmann::json ids = read_json(model + "/golden.json")["input_ids"];
  const std::string tokens = join_ids(ids, ids.size());
  const Finished mtp = run({"logits", "--model", model, "--tokens", tokens, "--kv", "f32", "--mtp",
                            "--out", folder / "m.npy"});
  ASSERT_EQ(mtp.code, 0) << mtp.err;
  expect_near(folder / "m.npy", model + "/golden_mtp_logits.npy");
  const Finished far = run({"logits", "--model", model, "--tokens", tokens, "--kv", "f32",
                            "--position", "160000", "--out", folder / "f.npy"});
  ASSERT_EQ(far.code, 0) << far.err;
  expect_near(folder / "f.npy", model + "/golden_logits_at_160000.npy");
}

TEST(CliLogits, AttentionsSumToOne) {
  const TemporaryFolder folder;
  const Finished finished = run({"logits", "--model", golden("r1-tiny"), "--tokens", "0,5,9",
                                 "--attentions", folder / "a.npy"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("a.npy float32 [3,4,3,3]\nargmax "), std::string::npos);
  const NpyArray array = read_npy(folder / "a.npy");
  ASSERT_EQ(array.shape, (std::vector<int64_t>{3, 4, 3, 3}));
  for (size_t row = 0; row < array.values.size() / 3; ++row) {
    float sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += array.values[row * 3 + i];
    EXPECT_NEAR(sum, 1.0f, 1e-5f);
  }
}

TEST(CliLogits, NothingIsLeftWhereAFileCannotBeWritten) {
  const TemporaryFolder folder;
  const Finished finished = run({"logits", "--model", golden("r1-tiny"), "--tokens", "0,5", "--out",
                                 folder / "l.npy", "--hidden", folder / "missing/h.npy"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("missing"), std::string::npos) << finished.err;
  EXPECT_EQ(folder.count(), 0);
}

TEST(CliGenerate, PlainOutputOfAModelWithoutTokenizerIsIds) {
  const nlohmann::json ids = read_json(golden("r1-tiny/golden_greedy.json"));
  const Finished finished =
      run({"generate", "--model", golden("r1-tiny"), "--tokens", join_ids(ids, kPromptTokens),
           "--kv", "f32", "--temp", "0", "-n", "3"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  std::string expected;
  for (size_t i = 0; i < 3; ++i) {
    expected += (i ? " " : "") + std::to_string(ids[kPromptTokens + i].get<int>());
  }
  EXPECT_EQ(finished.out, expected + "\n");
  // What is used, and why.
  for (const char* part :
       {"r1-tiny", "kernels", "KV cache f32", "config.json says 163840", "greedy", "tokens/s"}) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << " in " << finished.err;
  }
}

TEST(CliGenerate, JsonHasEveryField) {
  const Finished finished = run({"generate", "--model", golden("r1-tiny"), "--tokens", "0,5,9",
                                 "-n", "4", "--seed", "3", "--ignore-eos", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  const nlohmann::json result = finished.json();
  EXPECT_EQ(result["token_ids"].size(), 4u);
  for (const char* name : {"text", "reasoning", "content"}) {
    ASSERT_TRUE(result.contains(name));
    EXPECT_TRUE(result[name].is_null()) << name;
  }
  EXPECT_EQ(result["finish_reason"], "length");
  const nlohmann::json usage = {{"prompt_tokens", 3},
                                {"completion_tokens", 4},
                                {"total_tokens", 7},
                                {"cached_tokens", 0},
                                {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
  EXPECT_EQ(result["usage"], usage);
  for (const char* name : {"load_seconds", "prefill_seconds", "decode_seconds",
                           "prefill_tokens_per_second", "decode_tokens_per_second"}) {
    EXPECT_TRUE(result["timings"][name].is_number()) << name;
  }
  EXPECT_EQ(result["seed"], 3);
  EXPECT_EQ(result["model"], "r1-tiny");
  EXPECT_EQ(result["context"]["tokens"], 163840);
  EXPECT_TRUE(result["context"]["reason"].is_string());
}

TEST(CliGenerate, AReportedSeedRepeatsTheRun) {
  const std::vector<std::string> command = {"generate", "--model",      golden("r1-tiny"),
                                            "--tokens", "0,5,9",        "-n",
                                            "8",        "--ignore-eos", "--json"};
  const nlohmann::json first = run(command).json();
  std::vector<std::string> again = command;
  again.insert(again.end(), {"--seed", std::to_string(first["seed"].get<uint64_t>()), "--threads",
                             "1", "--kernels", "reference", "--prefill-chunk", "1"});
  EXPECT_EQ(run(again).json()["token_ids"], first["token_ids"]);
}

TEST(CliGenerate, StopIdsAndContextEndIt) {
  const nlohmann::json ids = read_json(golden("r1-tiny/golden_greedy.json"));
  const std::string prompt = join_ids(ids, kPromptTokens);
  const std::string third = std::to_string(ids[kPromptTokens + 2].get<int>());
  const nlohmann::json stopped = run({"generate", "--model", golden("r1-tiny"), "--tokens", prompt,
                                      "--kv", "f32", "--temp", "0", "--stop-id", third, "--json"})
                                     .json();
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_EQ(stopped["token_ids"].size(), 3u);
  const nlohmann::json full = run({"generate", "--model", golden("r1-tiny"), "--tokens", prompt,
                                   "--temp", "0", "--ctx", "20", "--ignore-eos", "--json"})
                                  .json();
  EXPECT_EQ(full["finish_reason"], "length");
  EXPECT_EQ(full["token_ids"].size(), 20 - kPromptTokens);
}

TEST(CliPerplexity, IsTheMeanOverWindows) {
  const std::string model = golden("r1-tiny");
  const auto measure = [&](const std::string& tokens, const std::string& ctx) {
    const Finished finished = run({"perplexity", "--model", model, "--tokens", tokens, "--ctx", ctx,
                                   "--kv", "f32", "--json"});
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.json();
  };
  const nlohmann::json whole = measure("0,5,9,7,3,2,8,40,41", "4");
  EXPECT_EQ(whole["tokens"], 9);
  EXPECT_EQ(whole["predicted"], 6);  // the last window has one token and predicts nothing
  EXPECT_EQ(whole["windows"], 2);
  EXPECT_EQ(whole["ctx"], 4);
  const double first = measure("0,5,9,7", "4")["mean_nll"];
  const double second = measure("3,2,8,40", "4")["mean_nll"];
  EXPECT_NEAR(whole["mean_nll"].get<double>(), (first + second) / 2, 1e-9);
  EXPECT_NEAR(whole["perplexity"].get<double>(), std::exp((first + second) / 2), 1e-6);
}

TEST(CliPerplexity, AgreesWithTheReferencesLogits) {
  const nlohmann::json ids = read_json(golden("r1-tiny/golden.json"))["input_ids"];
  const NpyArray logits = read_npy(golden("r1-tiny/golden_logits.npy"));
  const size_t vocab = logits.values.size() / ids.size();
  double sum = 0;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const float* row = logits.values.data() + i * vocab;
    double total = 0;
    for (size_t j = 0; j < vocab; ++j) total += std::exp(static_cast<double>(row[j]));
    sum += std::log(total) - row[ids[i + 1].get<size_t>()];
  }
  const Finished finished = run({"perplexity", "--model", golden("r1-tiny"), "--tokens",
                                 join_ids(ids, ids.size()), "--kv", "f32", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_NEAR(finished.json()["mean_nll"].get<double>(), sum / static_cast<double>(ids.size() - 1),
              kTolerance);
}

}  // namespace
}  // namespace fathom
