#include "base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/log.h"

namespace fathom {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(ProgressLine, ShowsShareRateAndTimeLeft) {
  const std::string line = progress_line({.label = "Loading",
                                          .done = 2 * kGiB,
                                          .total = 4 * kGiB,
                                          .unit = ProgressUnit::bytes,
                                          .seconds = 2},
                                         100);
  EXPECT_EQ(line.rfind("Loading [===============               ] ", 0), 0u) << line;
  EXPECT_NE(line.find("GiB/s"), std::string::npos) << line;
  EXPECT_NE(line.find("left"), std::string::npos) << line;
}

TEST(ProgressLine, CountsItems) {
  EXPECT_EQ(progress_line({.label = "layers", .done = 30, .total = 60, .seconds = 10}, 60),
            "layers [============            ] 30 of 60, 3.0/s, 10 s left");
  EXPECT_EQ(progress_line({.label = "rows", .done = 5000, .total = 5000, .seconds = 10}, 40),
            "rows [=============] 5000 of 5000, 500/s");
}

TEST(ProgressLine, PromisesNothingBeforeAnythingIsDone) {
  EXPECT_EQ(progress_line({.label = "x", .done = 0, .total = 10, .seconds = 3}, 20),
            "x [        ] 0 of 10");
}

TEST(ProgressLine, AnUnknownTotalHasNoBar) {
  const std::string line = progress_line({.label = "read", .done = 12, .seconds = 4}, 80);
  EXPECT_EQ(line, "read 12, 3.0/s");
}

TEST(ProgressLine, MoreThanTheTotalFillsTheBar) {
  EXPECT_EQ(progress_line({.label = "x", .done = 30, .total = 10, .seconds = 1}, 30),
            "x [===========] 30 of 10, 30/s");
}

TEST(ProgressLine, NeverExceedsTheColumns) {
  const ProgressState state{.label = "Größe des Prüfpunkts",
                            .done = 1000,
                            .total = 123456789,
                            .unit = ProgressUnit::bytes,
                            .seconds = 5};
  for (int columns = 1; columns < 120; ++columns) {
    const std::string line = progress_line(state, columns);
    int width = 0;
    for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    EXPECT_LE(width, columns);
    EXPECT_EQ(line.find('\xc3') == line.size() - 1, false) << "a character is cut: " << line;
  }
}

// stderr is a terminal of 80 columns while this lives; text() is what was written to it.
class FakeTerminal {
 public:
  FakeTerminal() {
    fflush(stderr);
    leader_ = posix_openpt(O_RDWR | O_NOCTTY);
    if (leader_ < 0 || grantpt(leader_) != 0 || unlockpt(leader_) != 0) return;
    const int follower = open(ptsname(leader_), O_RDWR | O_NOCTTY);
    if (follower < 0) return;
    const winsize size{24, 80, 0, 0};
    ioctl(follower, TIOCSWINSZ, &size);
    saved_ = dup(STDERR_FILENO);
    dup2(follower, STDERR_FILENO);
    close(follower);
  }
  ~FakeTerminal() {
    restore();
    if (leader_ >= 0) close(leader_);
  }
  bool works() const { return saved_ >= 0; }
  std::string text() {
    std::string all;
    pollfd ready{leader_, POLLIN, 0};
    while (poll(&ready, 1, 50) > 0 && (ready.revents & POLLIN) != 0) {
      char some[4096];
      const ssize_t got = read(leader_, some, sizeof some);
      if (got <= 0) break;
      all.append(some, static_cast<size_t>(got));
    }
    restore();
    return all;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  int leader_ = -1;
  int saved_ = -1;
};

void sleep_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Counts how often a line was begun.
int draws_in(const std::string& text, const std::string& label) {
  int count = 0;
  for (size_t at = text.find("\r" + label); at != std::string::npos;
       at = text.find("\r" + label, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Progress, DrawsSeldomAndErasesAtTheEnd) {
  FakeTerminal terminal;
  if (!terminal.works()) GTEST_SKIP() << "no pseudo terminal here";
  const auto began = std::chrono::steady_clock::now();
  {
    Progress progress("tokens", 3000, ProgressUnit::items);
    for (int i = 0; i < 3000; ++i) {
      progress.add(1);
      if (i % 10 == 0) sleep_for(1);
    }
  }
  const auto took = std::chrono::steady_clock::now() - began;
  const std::string text = terminal.text();
  const int draws = draws_in(text, "tokens [");
  EXPECT_GE(draws, 1);
  EXPECT_LE(draws, took / std::chrono::milliseconds(100));
  ASSERT_GE(text.size(), 4u);
  EXPECT_EQ(text.substr(text.size() - 4), "\r\x1b[K");
}

TEST(Progress, ShortWorkShowsNothing) {
  FakeTerminal terminal;
  if (!terminal.works()) GTEST_SKIP() << "no pseudo terminal here";
  {
    Progress progress("quick", 3, ProgressUnit::items);
    progress.add(3);
  }
  EXPECT_EQ(terminal.text(), "");
}

TEST(Progress, CanBeSwitchedOff) {
  FakeTerminal terminal;
  if (!terminal.works()) GTEST_SKIP() << "no pseudo terminal here";
  Progress::enable(false);
  {
    Progress progress("silent", 3, ProgressUnit::items);
    sleep_for(120);
    progress.set(2);
  }
  Progress::enable(true);
  EXPECT_EQ(terminal.text(), "");
}

TEST(Progress, IsSilentWithoutATerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress("silent", 3, ProgressUnit::items);
    sleep_for(120);
    progress.set(2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, ALogLineTakesTheDrawnLineAway) {
  FakeTerminal terminal;
  if (!terminal.works()) GTEST_SKIP() << "no pseudo terminal here";
  {
    Progress progress("layers", 3, ProgressUnit::items);
    sleep_for(120);
    progress.set(1);
    log::info("in between");
  }
  const std::string text = terminal.text();
  EXPECT_NE(text.find("\r\x1b[Kin between"), std::string::npos) << text;
}

TEST(ProgressThreads, DrawingAndLoggingFromSeveralThreads) {
  FakeTerminal terminal;
  if (!terminal.works()) GTEST_SKIP() << "no pseudo terminal here";
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      Progress progress("thread " + std::to_string(t), 30, ProgressUnit::items);
      for (int i = 0; i < 30; ++i) {
        progress.add(1);
        sleep_for(10);
        if (i % 10 == 0) log::info("thread {} at {}", t, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = terminal.text();
  for (int t = 0; t < 3; ++t) {
    for (int i = 0; i < 30; i += 10) {
      EXPECT_NE(text.find("thread " + std::to_string(t) + " at " + std::to_string(i)),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fathom
