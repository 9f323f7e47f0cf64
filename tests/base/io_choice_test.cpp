#include "base/io_choice.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/buffer.h"
#include "base/error.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

using Paths = std::vector<std::vector<std::string>>;
using Names = std::vector<std::string>;

TEST(IoChoice, TakesTheFirstModeUnlessAnotherIsClearlyFaster) {
  const auto best = [](double uring, double direct, double buffered) {
    std::vector<IoMeasurement> modes{{IoMode::uring_direct, uring, ""},
                                     {IoMode::threads_direct, direct, ""},
                                     {IoMode::threads_buffered, buffered, ""}};
    for (IoMeasurement& mode : modes) {
      if (mode.bytes_per_second == 0) mode.refused = "refused";
    }
    return best_io_mode(modes);
  };
  EXPECT_EQ(best(100, 119, 119), IoMode::uring_direct);
  EXPECT_EQ(best(100, 121, 130), IoMode::threads_direct);
  EXPECT_EQ(best(100, 101, 121), IoMode::threads_buffered);
  EXPECT_EQ(best(0, 50, 51), IoMode::threads_direct);
  EXPECT_EQ(best(0, 0, 10), IoMode::threads_buffered);
}

class MeasureReads : public testing::Test {
 protected:
  MeasureReads() {
    std::ofstream(folder_ / "small", std::ios::binary) << std::string(100, 'x');
    std::ofstream(folder_ / "large", std::ios::binary) << std::string(6000001, 'y');
    std::ofstream(folder_ / "empty", std::ios::binary);
  }
  ExtentReaderOptions options(const Names& files) const {
    ExtentReaderOptions options;
    options.mode = IoMode::automatic;
    for (const std::string& file : files) options.paths.push_back(Names{folder_ / file});
    return options;
  }

  TemporaryFolder folder_;
};

TEST_F(MeasureReads, EveryModeOrSaysWhyNotThreads) {
  for (const Names& files : {Names{"small", "large"}, Names{"small"}}) {
    const IoChoice choice = measure_io_modes(options(files), 0.02, uint64_t{8} << 20);
    ASSERT_EQ(choice.modes.size(), 3u);
    for (const IoMeasurement& mode : choice.modes) {
      EXPECT_EQ(mode.bytes_per_second > 0, mode.refused.empty()) << io_mode_name(mode.mode);
      EXPECT_NE(describe(choice).find(io_mode_name(mode.mode)), std::string::npos);
    }
    EXPECT_EQ(choice.best, best_io_mode(choice.modes));
    EXPECT_TRUE(choice.modes.back().refused.empty());
  }
  EXPECT_EQ(measure_io_modes(options({"empty"}), 0.02).modes.size(), 3u);
}

TEST_F(MeasureReads, OnlyTheModeThatIsForced) {
  ExtentReaderOptions forced = options({"large"});
  forced.mode = IoMode::threads_buffered;
  const IoChoice choice = measure_io_modes(forced, 0.02);
  ASSERT_EQ(choice.modes.size(), 1u);
  EXPECT_EQ(choice.best, IoMode::threads_buffered);
  EXPECT_GT(choice.modes[0].bytes_per_second, 0);
  forced.mode = IoMode::threads_direct;
  forced.paths = Paths{Names{"/proc/version"}};
  EXPECT_THROW(measure_io_modes(forced, 0.02), Error);
}

TEST_F(MeasureReads, WithAsManyReadsAsThereAreSlots) {
  ExtentReaderOptions plain = options({"large"});
  plain.mode = IoMode::threads_buffered;
  const auto reader = open_extent_reader(plain);
  const Buffer memory(size_t{8} << 20);
  std::vector<int> asked(4);
  ReadLoad load;
  load.slots = 4;
  load.memory = memory.bytes();
  load.seconds = 60;
  load.next = [&](size_t slot) -> std::optional<Extent> {
    if (++asked[slot] > 3) return std::nullopt;
    return Extent{0, 1000, 500000};
  };
  const ReadRate rate = measure_reads(*reader, load);
  EXPECT_EQ(rate.bytes, 12u * 500000);
  EXPECT_GT(rate.bytes_per_second(), 0);
  EXPECT_EQ(asked, std::vector<int>(4, 4));

  load.next = [](size_t) { return Extent{0, 6000000, 2}; };
  try {
    measure_reads(*reader, load);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_NE(std::string(error.what()).find("6000001"), std::string::npos) << error.what();
  }
  EXPECT_EQ(reader->outstanding(), 0u);

  CancelToken cancel;
  load.cancel = &cancel;
  load.next = [&](size_t) {
    cancel.cancel();
    return Extent{0, 0, 100};
  };
  EXPECT_THROW(measure_reads(*reader, load), Error);
  EXPECT_EQ(reader->outstanding(), 0u);
}

}  // namespace
}  // namespace fathom
