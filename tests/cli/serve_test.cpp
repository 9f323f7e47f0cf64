// fathom serve from its command line to its exit code.
#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace fathom {
namespace {

constexpr int kPatience = 120;  // seconds: only a hang meets it

// With the demo model, which is the default.
std::vector<std::string> serve(std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"serve", "--port", "0", "--json", "--threads", "1"});
  return options;
}

TEST(Serve, EndsWithZeroWhenItIsTold) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Program program(serve(), "");
    ASSERT_TRUE(program.wait_for_output(kPatience));
    program.signal(signal);
    const Finished finished = program.wait();
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_TRUE(finished.json()["url"].get<std::string>().starts_with("http://127.0.0.1:"));
    EXPECT_GT(finished.json()["port"], 0);
  }
}

TEST(Serve, SaysWhenAnAddressCannotBeHad) {
  Program first(serve(), "");
  ASSERT_TRUE(first.wait_for_output(kPatience));
  const int port = nlohmann::json::parse(first.out_so_far())["port"];
  const Finished second = run({"serve", "--port", std::to_string(port)});
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find(std::to_string(port)), std::string::npos) << second.err;
}

TEST(Serve, RefusesWhatMakesNoSense) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--port", "70000"},        {"--api-key", ""},        {"--api-key", "two words"},
      {"--cors", "example"},      {"--cors", "http://a/b"}, {"--alias", ""},
      {"--max-sequences", "0"},   {"--max-body", "1"},      {"--log-prompts"},
      {"--max-connections", "0"}, {"--drain", "a while"},   {"--host", ""},
  };
  for (const std::vector<std::string>& options : wrong) {
    const Finished finished = run(serve(options));
    EXPECT_EQ(finished.code, 2) << options[0] << " " << finished.err;
    EXPECT_NE(finished.err.find(options[0]), std::string::npos) << finished.err;
  }
  TemporaryFolder folder;
  std::ofstream(folder / "keys") << "# none\n\n";
  EXPECT_EQ(run(serve({"--api-key-file", folder / "keys"})).code, 1);
  EXPECT_EQ(run(serve({"--chat-template", folder / "none"})).code, 1);
  EXPECT_EQ(run(serve({"--access-log", folder / "no/where"})).code, 1);
}

}  // namespace
}  // namespace fathom
