// --ram is a promise: the program's own account of its memory, which is the kernel's, stays below.
#include <gtest/gtest.h>

#include "tests/checkpoint/configs.h"
#include "tests/cli/program.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FATHOM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FATHOM_SANITIZED 1
#endif
#endif

namespace fathom {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Memory : public testing::Test {
 protected:
  void SetUp() override {
#ifdef FATHOM_SANITIZED
    GTEST_SKIP() << "a sanitizer's own memory is not in the budget";
#endif
    std::ofstream(folder_ / "config.json") << many_experts_config();
    const Finished made = run({"synth", "--config", folder_ / "config.json", "--out",
                               folder_ / "model", "--seed", "3", "--shards", "2", "--quiet"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  Finished generate(std::vector<std::string> more) {
    std::vector<std::string> words = {
        "generate", "--model", folder_ / "model", "--tokens", "5,6,7",        "-n",    "12",
        "--temp",   "0",       "--ctx",           "256",      "--ignore-eos", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  TemporaryFolder folder_;
};

TEST_F(Memory, StaysWithinTheBudget) {
  const Finished whole = generate({"--experts", "memory"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  for (const uint64_t budget : {100, 130, 160}) {
    const Finished got = generate({"--ram", std::to_string(budget) + "M", "--experts", "disk"});
    ASSERT_EQ(got.code, 0) << got.err;
    const nlohmann::json json = got.json();
    EXPECT_EQ(json["token_ids"], whole.json()["token_ids"]);
    const uint64_t peak = json["stats"]["peak_memory"];
    EXPECT_LE(peak, budget * kMiB);
    // It is no promise if nothing comes near it.
    EXPECT_GT(peak, 40 * kMiB);
    EXPECT_GT(json["stats"]["bytes_read"].get<uint64_t>(), 0u);
  }
}

TEST_F(Memory, RefusesWhatDoesNotFitWithATable) {
  const Finished small = generate({"--ram", "50M"});
  EXPECT_EQ(small.code, 1);
  for (const char* part : {"attention", "head", "KV cache", "process", "--ctx", "50.0 MiB"}) {
    EXPECT_NE(small.err.find(part), std::string::npos) << part << " in " << small.err;
  }
  const Finished memory = generate({"--ram", "100M", "--experts", "memory"});
  EXPECT_EQ(memory.code, 1);
  EXPECT_NE(memory.err.find("--experts disk"), std::string::npos) << memory.err;
}

}  // namespace
}  // namespace fathom
