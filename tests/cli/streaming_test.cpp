// Experts on disk, as the program uses them: stopped in the prompt, and by several at once.
#include <memory>

#include "tests/checkpoint/configs.h"
#include "tests/cli/program.h"

namespace fathom {
namespace {

class Streaming : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "config.json") << many_experts_config();
    const Finished made = run({"synth", "--config", folder_ / "config.json", "--out",
                               folder_ / "model", "--seed", "3", "--shards", "2", "--quiet"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  std::vector<std::string> generate(const std::string& tokens,
                                    std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "generate", "--model", folder_ / "model", "--tokens", tokens,         "-n",        "6",
        "--ctx",    "1300",    "--temp",          "0",        "--ignore-eos", "--experts", "disk",
        "--ram",    "130M",    "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TemporaryFolder folder_;
};

// With the reference kernels this prompt takes many seconds, so the signal comes in the middle of
// it.
TEST_F(Streaming, ASignalEndsThePromptBetweenLayersAndExperts) {
  std::string prompt = "1";
  for (int i = 2; i < 600; ++i) prompt += "," + std::to_string(i);
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    const std::string trace = folder_ / ("trace-" + std::to_string(signal));
    const int files = folder_.count();
    Program program(generate(prompt, {"--kernels", "reference", "--trace-experts", trace}), "");
    // The trace begins, under another name, when the model is loaded; the prompt comes next.
    for (int i = 0; i < 6000 && folder_.count() == files; ++i) usleep(10'000);
    usleep(200'000);
    program.signal(signal);
    const Finished finished = program.wait();
    ASSERT_EQ(finished.code, code) << finished.err;
    EXPECT_EQ(finished.json()["finish_reason"], "cancelled");
    EXPECT_TRUE(finished.json()["token_ids"].empty());
    EXPECT_EQ(finished.json()["usage"]["completion_tokens"], 0);
  }
}

TEST_F(Streaming, SeveralProcessesOnOneCheckpointGiveTheSame) {
  const Finished alone = run(generate("5,6,7"));
  ASSERT_EQ(alone.code, 0) << alone.err;
  std::vector<std::unique_ptr<Program>> together;
  for (const char* io : {"pread-direct", "pread", "auto"}) {
    together.push_back(std::make_unique<Program>(generate("5,6,7", {"--io", io}), ""));
  }
  for (const std::unique_ptr<Program>& program : together) {
    const Finished finished = program->wait();
    ASSERT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.json()["token_ids"], alone.json()["token_ids"]);
  }
}

}  // namespace
}  // namespace fathom
