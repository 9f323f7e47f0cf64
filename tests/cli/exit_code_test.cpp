// Exit codes, errors, signals and pipes.
#include <set>

#include "tests/cli/program.h"
#include "tests/paths.h"

namespace fathom {
namespace {

std::string tiny() { return golden("r1-tiny"); }

TEST(CliExit, HelpAndVersionSucceed) {
  EXPECT_EQ(run({"--help"}).code, 0);
  const Finished help = run({"generate", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("--min-p"), std::string::npos);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(run({"--version"}).out.rfind("fathom ", 0), 0u);
}

TEST(CliExit, WrongUseIsTwoAndOneLine) {
  const std::vector<std::vector<std::string>> commands = {
      {},
      {"dance"},
      {"generate", "--model", tiny()},
      {"generate", "--model", tiny(), "--tokens", "0", "--frobnicate"},
      {"generate", "--model", tiny(), "--tokens", "0", "--temp", "hot"},
      {"generate", "--model", tiny(), "--tokens", "263"},  // outside the vocabulary
      {"generate", "--model", tiny(), "--tokens", "0", "--ctx", "1M"},
      {"generate", "--model", tiny(), "--tokens", "0,1,2", "--ctx", "3"},
      {"logits", "--model", tiny(), "--tokens", "0", "--mtp", "--out", "/tmp/never.npy"},
  };
  for (const std::vector<std::string>& command : commands) {
    const Finished finished = run(command);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_EQ(finished.out, "");
    const size_t at = finished.err.find("error: ");
    ASSERT_NE(at, std::string::npos) << finished.err;
    EXPECT_EQ(finished.err.find('\n', at), finished.err.size() - 1) << finished.err;
  }
}

TEST(CliExit, FailuresAreOneAndNameTheThing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"generate", "--model", "/no/such/folder", "--tokens", "0"}, "/no/such/folder"},
      {{"generate", "--model", tiny(), "--prompt", "text"}, "tokenizer.json"},
      {{"generate", "--model", tiny(), "--tokens", "0", "--stop", "x"}, "tokenizer.json"},
      {{"chat", "--model", tiny()}, "tokenizer.json"},
      {{"tokenize", "--model", tiny(), "--text", "a"}, "tokenizer.json"},
      {{"perplexity", "--model", tiny(), "--tokens", "0"}, "--tokens"},
      {{"generate", "--model", test_paths::models() + "/random", "--prompt-file", "/no/such/file"},
       "/no/such/file"},
      {{"synth", "--config", "/no/such/config.json", "--out", "/tmp/fathom-never"},
       "/no/such/config.json"},
  };
  for (const auto& [command, part] : commands) {
    const Finished finished = run(command);
    EXPECT_EQ(finished.code, 1) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find(part), std::string::npos) << finished.err;
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/fathom-never"));
}

TEST(CliExit, JsonErrorsAreObjects) {
  const Finished usage = run({"generate", "--json", "--tokens", "0", "--temp", "hot"});
  EXPECT_EQ(usage.code, 2);
  EXPECT_EQ(usage.json()["error"]["kind"], "usage");
  EXPECT_NE(usage.json()["error"]["message"].get<std::string>().find("--temp"), std::string::npos);
  const Finished failed =
      run({"generate", "--json", "--tokens", "0", "--model", "/no/such/folder"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_TRUE(failed.json()["error"]["message"].is_string());
}

TEST(CliExit, SynthRefusesAFolderInUse) {
  const TemporaryFolder folder;
  const std::vector<std::string> command = {
      "synth", "--config", tiny() + "/config.json", "--out", folder / "m", "--seed", "2"};
  const Finished first = run(command);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("files"), std::string::npos);
  EXPECT_EQ(run(command).code, 2);
  const Finished result = run({"generate", "--model", folder / "m", "--tokens", "0,1", "-n", "2",
                               "--ignore-eos", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json()["token_ids"].size(), 2u);
}

TEST(CliExit, SynthMakesASkeletonThatRuns) {
  const TemporaryFolder folder;
  const Finished made =
      run({"synth", "--config", tiny() + "/config.json", "--out", folder / "m", "--shards", "3",
           "--skeleton", "--live", "--live-rows", "200", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.json()["files"], 6);
  EXPECT_GT(made.json()["bytes"].get<uint64_t>(), 4 * made.json()["written_bytes"].get<uint64_t>());
  std::set<int> ids;
  for (const char* token : {"7", "8", "9", "10"}) {
    const Finished result = run({"generate", "--model", folder / "m", "--tokens", token, "--temp",
                                 "0", "-n", "2", "--ignore-eos", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    const auto document = result.json();
    for (const int id : document["token_ids"]) ids.insert(id);
  }
  EXPECT_GE(ids.size(), 4u);
}

TEST(CliExit, AFullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Finished finished =
      Program({"generate", "--model", tiny(), "--tokens", "0", "--ignore-eos"}, "", "/dev/full")
          .wait();
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.err.find("standard output"), std::string::npos) << finished.err;
}

TEST(CliInterrupt, GenerateShowsWhatThereIs) {
  Program program({"generate", "--model", tiny(), "--tokens", "0,5,9", "--ignore-eos"}, "");
  ASSERT_TRUE(program.wait_for_output(60));
  program.signal(SIGINT);
  const Finished finished = program.wait();
  EXPECT_EQ(finished.code, 130);
  EXPECT_TRUE(finished.out.ends_with('\n'));
  EXPECT_NE(finished.err.find("stopped"), std::string::npos) << finished.err;
}

TEST(CliInterrupt, JsonSaysCancelled) {
  // Nothing tells when it has begun to generate: on a slow machine the first tries may come before.
  for (const int milliseconds : {500, 2000, 8000, 30000}) {
    Program program({"generate", "--model", tiny(), "--tokens", "0,5,9", "--ignore-eos", "--json"},
                    "");
    usleep(static_cast<useconds_t>(milliseconds) * 1000);
    program.signal(SIGTERM);
    const Finished finished = program.wait();
    EXPECT_EQ(finished.code, 143);
    if (finished.out.empty() || finished.json().contains("error")) continue;
    EXPECT_EQ(finished.json()["finish_reason"], "cancelled");
    return;
  }
  FAIL() << "never came to generate";
}

}  // namespace
}  // namespace fathom
