#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace fathom {
namespace {

template <typename Work>
std::string stderr_of(const Work& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

class Log : public testing::Test {
 protected:
  void TearDown() override { log::set_level(log::Level::info); }
};

TEST_F(Log, EachLevelHasItsPrefix) {
  log::set_level(log::Level::debug);
  EXPECT_EQ(stderr_of([] { log::debug("read {} bytes", 12); }), "debug: read 12 bytes\n");
  EXPECT_EQ(stderr_of([] { log::info("context {}", 4096); }), "context 4096\n");
  EXPECT_EQ(stderr_of([] { log::warning("{} is unknown", "x"); }), "warning: x is unknown\n");
  EXPECT_EQ(stderr_of([] { log::write(log::Level::error, "no model"); }), "error: no model\n");
}

TEST_F(Log, LevelsBelowTheOneSetAreSilent) {
  EXPECT_EQ(stderr_of([] { log::debug("unseen"); }), "");
  log::set_level(log::Level::warning);
  EXPECT_EQ(stderr_of([] { log::info("unseen"); }), "");
  EXPECT_EQ(stderr_of([] { log::warning("seen"); }), "warning: seen\n");
  log::set_level(log::Level::off);
  EXPECT_EQ(stderr_of([] {
              log::write(log::Level::error, "unseen");
              log::write(log::Level::off, "unseen");
            }),
            "");
}

TEST_F(Log, PatternsInAMessageAreText) {
  EXPECT_EQ(stderr_of([] { log::write(log::Level::info, "{} %v %n {0}"); }), "{} %v %n {0}\n");
}

TEST(LogThreads, LinesStayWhole) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) log::info("{}", std::string(50, static_cast<char>('a' + t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.size(), 400u * 51);
  for (size_t line = 0; line + 51 <= text.size(); line += 51) {
    EXPECT_EQ(text.substr(line, 51), std::string(50, text[line]) + "\n");
  }
}

}  // namespace
}  // namespace fathom
