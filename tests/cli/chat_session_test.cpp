// Chats that outlive the program: --session, killed and stopped in the middle of answers.
#include <sys/resource.h>

#include <random>

#include "tests/cli/program.h"

namespace fathom {
namespace {

using nlohmann::json;

std::vector<json> objects(const std::string& lines) {
  std::vector<json> found;
  size_t at = 0;
  while (at < lines.size()) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    if (end > at) found.push_back(json::parse(lines.substr(at, end - at)));
    at = end + 1;
  }
  return found;
}

class ChatSession : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& session, int64_t max_tokens,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"chat",
                                      "--model",
                                      model_.path(),
                                      "--json",
                                      "--threads",
                                      "1",
                                      "--seed",
                                      "3",
                                      "--temp",
                                      "0.8",
                                      "--ignore-eos",
                                      "--frequency-penalty",
                                      "0.2",
                                      "--max-tokens",
                                      std::to_string(max_tokens)};
    if (!session.empty()) words.insert(words.end(), {"--session", session});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // What a chat that is never interrupted answers.
  std::vector<json> answers(const std::string& input, int64_t max_tokens,
                            const std::vector<std::string>& more = {}) const {
    const Finished finished = run(command("", max_tokens, more), input);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return objects(finished.out);
  }
  std::string file(const std::string& name) const { return folder_ / name; }

  TextModel model_;
  TemporaryFolder folder_;
};

void expect_same(const json& got, const json& expected) {
  EXPECT_EQ(got["content"], expected["content"]);
  EXPECT_EQ(got["reasoning"], expected["reasoning"]);
  EXPECT_EQ(got["finish_reason"], expected["finish_reason"]);
  EXPECT_EQ(got["usage"]["prompt_tokens"], expected["usage"]["prompt_tokens"]);
  EXPECT_EQ(got["usage"]["completion_tokens"], expected["usage"]["completion_tokens"]);
}

TEST_F(ChatSession, GoesOnWithTheConversation) {
  const std::vector<std::string> brief = {"--think", "off"};
  const std::vector<json> expected = answers("hello\nand you\n", 20, brief);
  ASSERT_EQ(expected.size(), 2u);
  const Finished first = run(command(file("s"), 20, brief), "hello\n");
  ASSERT_EQ(first.code, 0) << first.err;
  expect_same(objects(first.out).at(0), expected[0]);
  const Finished second = run(command(file("s"), 20, brief), "and you\n");
  ASSERT_EQ(second.code, 0) << second.err;
  ASSERT_EQ(objects(second.out).size(), 1u);
  expect_same(objects(second.out)[0], expected[1]);
  EXPECT_GT(objects(second.out)[0]["usage"]["cached_tokens"].get<int64_t>(), 5);
  EXPECT_EQ(folder_.count(), 1) << "one file, nothing beside it";
}

TEST_F(ChatSession, SettingsAreThoseOfTheSession) {
  ASSERT_EQ(run(command(file("s"), 20), "hello\n/think off\n").code, 0);
  const std::vector<std::string> bare = {"chat",      "--model", model_.path(), "--json",
                                         "--threads", "1",       "--session",   file("s")};
  const Finished second = run(bare, "and you\n");
  ASSERT_EQ(second.code, 0) << second.err;
  const json answer = objects(second.out).at(0);
  EXPECT_EQ(answer["seed"], 3);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 20) << "--max-tokens of the first run";
  std::vector<std::string> other = bare;
  other.insert(other.end(), {"--system", "Be brief."});
  const Finished refused = run(other, "more\n");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--system"), std::string::npos) << refused.err;
}

TEST_F(ChatSession, AKilledAnswerGoesOnAsIfNothingHadHappened) {
  constexpr int64_t kTokens = 300;
  const std::string input = "hello\nand you\n";
  const std::vector<json> expected = answers(input, kTokens);
  ASSERT_EQ(expected.size(), 2u);
  std::mt19937 random(7);
  int resumed = 0;
  for (int round = 0; round < 3; ++round) {
    const std::string session = file("s" + std::to_string(round));
    const std::vector<std::string> words = command(session, kTokens, {"--autosave", "4"});
    // Killed again and again after some saves, at any moment of the next ones; then let alone.
    for (int kill = 0; kill < 4; ++kill) {
      Program program(words, kill == 0 ? input : "");
      std::error_code missing;
      uintmax_t size = 0;
      for (auto saves = static_cast<int>(random() % 20); saves >= 0; --saves) {
        for (int wait = 0; wait < 500; ++wait) {
          const uintmax_t now = std::filesystem::file_size(session, missing);
          if (!missing && now != size) break;
          usleep(1000);
        }
        size = std::filesystem::file_size(session, missing);
      }
      usleep(static_cast<useconds_t>(random() % 3000));
      program.signal(SIGKILL);
      program.wait();
    }
    const Finished rest = run(words, "");
    ASSERT_EQ(rest.code, 0) << rest.err;
    ASSERT_LE(objects(rest.out).size(), 1u);
    for (const json& answer : objects(rest.out)) {
      // Whichever of the two it was.
      const bool first = answer["usage"]["prompt_tokens"] == expected[0]["usage"]["prompt_tokens"];
      expect_same(answer, first ? expected[0] : expected[1]);
      if (answer["resumed_tokens"].get<int64_t>() > 0) ++resumed;
    }
  }
  EXPECT_GT(resumed, 0) << "or nothing was tested";
}

TEST_F(ChatSession, TerminationSavesAndTheAnswerGoesOn) {
  constexpr int64_t kTokens = 1500;
  const std::vector<json> expected = answers("hello\n", kTokens);
  // Saved every so many tokens that only leaving can have saved what there is.
  Program program(command(file("s"), kTokens, {"--autosave", "1000000"}), "hello\n");
  for (int i = 0; i < 1000 && !std::filesystem::exists(file("s")); ++i) usleep(10'000);
  usleep(150'000);
  program.signal(SIGTERM);
  const Finished stopped = program.wait();
  if (stopped.code == 0) GTEST_SKIP() << "it was quicker than the signal";
  EXPECT_EQ(stopped.code, 128 + SIGTERM) << stopped.err;
  const Finished rest = run(command(file("s"), kTokens), "");
  ASSERT_EQ(rest.code, 0) << rest.err;
  ASSERT_EQ(objects(rest.out).size(), 1u);
  expect_same(objects(rest.out)[0], expected[0]);
  if (!stopped.out.empty()) {
    const json before = objects(stopped.out).at(0);
    EXPECT_EQ(before["finish_reason"], "cancelled");
    EXPECT_GE(objects(rest.out)[0]["resumed_tokens"], before["usage"]["completion_tokens"]);
  }
}

TEST_F(ChatSession, ADiskThatIsFullIsAWarning) {
  const std::vector<json> expected = answers("hello\n", 200);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = before;
  limit.rlim_cur = 20'000;  // standard output goes to a file too
  setrlimit(RLIMIT_FSIZE, &limit);
  const Finished finished = run(command(file("s"), 200, {"--autosave", "10"}), "hello\n");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.err.find(file("s") + ": cannot write"), std::string::npos) << finished.err;
  expect_same(objects(finished.out).at(0), expected[0]);
  const Finished rest = run(command(file("s"), 200), "");
  ASSERT_EQ(rest.code, 0) << rest.err;
  ASSERT_EQ(objects(rest.out).size(), 1u) << "what was saved before the disk was full goes on";
  expect_same(objects(rest.out)[0], expected[0]);
}

TEST_F(ChatSession, DamagedAndForeignFilesAreRefused) {
  ASSERT_EQ(run(command(file("s"), 5), "hello\n").code, 0);
  std::string bytes = file_text(file("s"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(file("bad"), std::ios::binary) << bytes;
  const Finished damaged = run(command(file("bad"), 5), "hello\n");
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.err.find(file("bad") + ": offset "), std::string::npos) << damaged.err;
  EXPECT_EQ(file_text(file("bad")), bytes);
  const Finished precision = run(command(file("s"), 5, {"--kv", "int8"}), "hello\n");
  EXPECT_EQ(precision.code, 1);
  EXPECT_NE(precision.err.find("is bf16, here it is int8"), std::string::npos) << precision.err;
}

TEST_F(ChatSession, APromptCacheServesTheNextRun) {
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate",     "--model",
                                      model_.path(),  "--json",
                                      "--chat",       "a question of some length",
                                      "--threads",    "1",
                                      "--seed",       "9",
                                      "--max-tokens", "12"};
    words.insert(words.end(), more.begin(), more.end());
    const Finished finished = run(words);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.json();
  };
  const json plain = generate({});
  const json first = generate({"--prompt-cache", file("p")});
  const json second = generate({"--prompt-cache", file("p")});
  EXPECT_EQ(first["token_ids"], plain["token_ids"]);
  EXPECT_EQ(second["token_ids"], plain["token_ids"]);
  EXPECT_EQ(first["usage"]["cached_tokens"], 0);
  EXPECT_EQ(second["usage"]["cached_tokens"].get<int64_t>() + 1,
            second["usage"]["prompt_tokens"].get<int64_t>());
}

}  // namespace
}  // namespace fathom
