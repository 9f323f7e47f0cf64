// Every way of reading, on real files, with what can go wrong. The ways that are threads are also
// run under ThreadSanitizer.
#include "base/extent_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "base/buffer.h"
#include "base/error.h"
#include "tests/base/faulty_raw_reader.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

using Paths = std::vector<std::vector<std::string>>;
using Names = std::vector<std::string>;
constexpr uint64_t kBlock = ExtentReader::kBlock;
constexpr uint64_t kFileBytes = (uint64_t{3} << 20) + 1234;
constexpr std::byte kUntouched{0xA5};

std::byte byte_at(int file, uint64_t offset) {
  return static_cast<std::byte>((offset * 2654435761u + static_cast<uint64_t>(file) * 97) >> 13);
}

void write_file(const std::string& path, int file, uint64_t bytes = kFileBytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(byte_at(file, i));
  std::ofstream(path, std::ios::binary) << text;
}

std::string name_of(const testing::TestParamInfo<IoMode>& info) {
  std::string name = io_mode_name(info.param);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

// Landing places in one piece of memory, whole blocks apart.
class Landings {
 public:
  explicit Landings(uint64_t bytes) : memory_(bytes + (uint64_t{4} << 20)) {
    std::memset(memory_.data(), static_cast<int>(kUntouched), memory_.size());
  }
  std::byte* add(const Extent& extent) {
    std::byte* place = memory_.data() + used_;
    used_ += ExtentReader::landing_bytes(extent) + kBlock;  // a block that must stay untouched
    EXPECT_LE(used_, memory_.size());
    return place;
  }
  std::span<std::byte> memory() { return memory_.bytes(); }

 private:
  Buffer memory_;  // mapped: begins at a page
  uint64_t used_ = 0;
};

bool landed(const Extent& extent, const std::byte* place) {
  const std::byte* first = place + ExtentReader::landing_offset(extent);
  for (uint64_t i = 0; i < extent.bytes; ++i) {
    if (first[i] != byte_at(extent.file, extent.offset + i)) return false;
  }
  const std::byte* behind = place + ExtentReader::landing_bytes(extent);
  return std::all_of(behind, behind + kBlock, [](std::byte b) { return b == kUntouched; });
}

class ExtentReaderTest : public testing::TestWithParam<IoMode> {
 protected:
  ExtentReaderTest() {
    for (int file = 0; file < 2; ++file) write_file(path(file), file);
  }
  std::string path(int file) const { return folder_ / ("file" + std::to_string(file)); }
  ExtentReaderOptions options() const {
    ExtentReaderOptions options;
    options.paths = Paths{Names{path(0)}, Names{path(1)}};
    options.mode = GetParam();
    options.piece_bytes = 16 * kBlock;
    options.depth = 8;
    return options;
  }
  // False where the system here refuses this way of reading as a whole.
  bool open(const ExtentReaderOptions& wanted, FaultyRawReader::Plan plan = nullptr) {
    std::string refused;
    const RawFactory factory = [&](const RawReaderOptions& raw) {
      RawOpened opened = plan ? faulty_factory(plan)(raw) : open_raw_reader(raw);
      refused = opened.refused;
      return opened;
    };
    try {
      reader_ = open_extent_reader(wanted, factory);
    } catch (const Error& error) {
      if (refused.empty()) throw;
      EXPECT_NE(std::string(error.what()).find(refused), std::string::npos);
      return false;
    }
    EXPECT_EQ(reader_->mode(), GetParam());
    return true;
  }
  // Reads all of them, demand and background mixed, and compares.
  void read_and_compare(const std::vector<Extent>& extents) {
    uint64_t bytes = 0;
    for (const Extent& extent : extents) bytes += ExtentReader::landing_bytes(extent) + kBlock;
    Landings landings(bytes);
    std::vector<std::byte*> places;
    for (const Extent& extent : extents) places.push_back(landings.add(extent));
    for (size_t i = 0; i < extents.size(); ++i) {
      reader_->start(i, extents[i], places[i],
                     i % 3 == 2 ? ReadPriority::background : ReadPriority::demand);
    }
    std::vector<int> seen(extents.size());
    while (const auto over = reader_->next(true)) {
      ++seen[over->ticket];
      EXPECT_FALSE(over->dropped);
      ASSERT_FALSE(over->failure) << over->failure->problem << " at " << over->failure->offset;
      EXPECT_TRUE(landed(extents[over->ticket], places[over->ticket])) << over->ticket;
    }
    EXPECT_EQ(seen, std::vector<int>(extents.size(), 1));
    EXPECT_EQ(reader_->outstanding(), 0u);
  }
  ExtentReader::Finished read_one(const Extent& extent) {
    Landings landings(ExtentReader::landing_bytes(extent) + kBlock);
    reader_->start(7, extent, landings.add(extent), ReadPriority::demand);
    const auto over = reader_->next(true);
    EXPECT_TRUE(over.has_value());
    EXPECT_EQ(over->ticket, 7u);
    return *over;
  }

  TemporaryFolder folder_;
  std::unique_ptr<ExtentReader> reader_;
};

INSTANTIATE_TEST_SUITE_P(Uring, ExtentReaderTest, testing::Values(IoMode::uring_direct), name_of);
INSTANTIATE_TEST_SUITE_P(Threads, ExtentReaderTest,
                         testing::Values(IoMode::threads_direct, IoMode::threads_buffered),
                         name_of);

#define OPEN_OR_SKIP(...) \
  if (!open(__VA_ARGS__)) GTEST_SKIP() << "refused by this system"

std::vector<Extent> mixed_extents(uint64_t most_bytes, int count) {
  std::mt19937_64 random(5);
  std::vector<Extent> extents{{0, 0, 1},
                              {0, 0, kFileBytes},
                              {1, kFileBytes - 1, 1},
                              {1, kFileBytes - 3 * kBlock, 3 * kBlock},
                              {0, kBlock - 1, 2},
                              {0, kBlock, kBlock},
                              {1, 77, 0}};
  for (int i = 0; i < count; ++i) {
    const uint64_t bytes = random() % most_bytes;
    extents.push_back({static_cast<int>(random() % 2), random() % (kFileBytes - bytes), bytes});
  }
  return extents;
}

TEST_P(ExtentReaderTest, ReadsExtentsOfAnyAlignment) {
  OPEN_OR_SKIP(options());
  const std::vector<Extent> extents = mixed_extents(300000, 60);
  read_and_compare(extents);
  uint64_t bytes = 0;
  for (const Extent& extent : extents) bytes += extent.bytes;
  const ReaderCounters counters = reader_->counters();
  EXPECT_EQ(counters.demand_bytes + counters.background_bytes, bytes);
  EXPECT_GT(counters.device_bytes, bytes);
  EXPECT_EQ(counters.retries, 0u);
  EXPECT_GT(counters.demand_seconds, 0);
}

TEST_P(ExtentReaderTest, ReadsManyTinyExtents) {
  OPEN_OR_SKIP(options());
  read_and_compare(mixed_extents(40, 1500));
  read_and_compare(mixed_extents(40, 100));  // with what the first ones left behind
}

TEST_P(ExtentReaderTest, ReadsIntoRegisteredMemory) {
  OPEN_OR_SKIP(options());
  Landings landings(uint64_t{8} << 20);
  const bool registered = reader_->register_memory(landings.memory());
  EXPECT_EQ(registered, reader_->description().find("registered buffers") != std::string::npos);
  EXPECT_TRUE(!registered || GetParam() == IoMode::uring_direct);
  const Extent extent{1, 12345, 2000000};
  std::byte* place = landings.add(extent);
  reader_->start(1, extent, place, ReadPriority::demand);
  const auto over = reader_->next(true);
  ASSERT_TRUE(over && !over->failure);
  EXPECT_TRUE(landed(extent, place));
  // Memory that is not registered can be read into as well, and more can be registered.
  read_and_compare({extent});
  Landings more(uint64_t{1} << 20);
  EXPECT_TRUE(!reader_->register_memory(more.memory()) || GetParam() == IoMode::uring_direct);
  read_and_compare({extent});
}

TEST_P(ExtentReaderTest, RepeatsWhatFailsOnce) {
  for (const int problem : {EIO, EAGAIN, EINTR}) {
    std::map<std::pair<int, uint64_t>, int> tries;
    OPEN_OR_SKIP(options(), [&](const RawRead& read) {
      return Fault{tries[{read.file, read.offset}]++ % 2 == 0 ? problem : 0, {}};
    });
    read_and_compare({{0, 5, 200000}, {1, 100000, 70000}, {0, kFileBytes - 10, 10}});
    EXPECT_GE(reader_->counters().retries, 6u);
  }
}

TEST_P(ExtentReaderTest, TellsWhereReadingFailsForGood) {
  const uint64_t bad = 64 * kBlock;
  OPEN_OR_SKIP(options(), [&](const RawRead& read) {
    return Fault{read.file == 1 && read.offset <= bad && bad < read.offset + read.bytes ? EIO : 0,
                 {}};
  });
  const auto over = read_one({1, 40 * kBlock + 1, 100 * kBlock});
  ASSERT_TRUE(over.failure);
  EXPECT_EQ(over.failure->path, path(1));
  EXPECT_EQ(over.failure->problem, std::strerror(EIO));
  EXPECT_LE(over.failure->offset, bad);
  EXPECT_GT(over.failure->offset + 16 * kBlock, bad);
  // The reader goes on.
  read_and_compare({{1, 0, 1000}, {0, 40 * kBlock + 1, 100 * kBlock}});
}

TEST_P(ExtentReaderTest, GoesOnAfterShortReads) {
  std::mt19937_64 random(3);
  OPEN_OR_SKIP(options(), [&](const RawRead& read) {
    return Fault{0, random() % 2 == 0 ? read.bytes : kBlock + random() % read.bytes};
  });
  read_and_compare(mixed_extents(200000, 20));
  EXPECT_GT(reader_->counters().retries, 0u);
}

TEST_P(ExtentReaderTest, RepeatsReadsOfNothing) {
  std::map<std::pair<int, uint64_t>, int> tries;
  OPEN_OR_SKIP(options(), [&](const RawRead& read) {
    const int times = tries[{read.file, read.offset}]++;
    return Fault{0, times == 0 ? 0 : times == 1 ? 100 : read.bytes};
  });
  read_and_compare({{0, 5, 200000}, {1, 9, kBlock}});
}

TEST_P(ExtentReaderTest, TellsWhereATruncatedFileEnds) {
  OPEN_OR_SKIP(options());
  read_and_compare({{0, 1000000, 1000000}});
  std::filesystem::resize_file(path(0), 1500000);
  for (const Extent extent : {Extent{0, 1000000, 1000000}, Extent{0, 1499999, 2}}) {
    const auto over = read_one(extent);
    ASSERT_TRUE(over.failure);
    EXPECT_EQ(over.failure->path, path(0));
    EXPECT_EQ(over.failure->problem, "the file ends here");
    EXPECT_EQ(over.failure->offset, 1500000u);
  }
  const auto behind = read_one({0, 2000001, 10});
  ASSERT_TRUE(behind.failure);
  EXPECT_EQ(behind.failure->offset, 2000001u);
  read_and_compare({{0, 1499990, 10}, {1, 1000000, 1000000}});
}

TEST_P(ExtentReaderTest, GoesOnWithDeletedFiles) {
  OPEN_OR_SKIP(options());
  std::filesystem::remove(path(0));
  read_and_compare(mixed_extents(100000, 20));
}

TEST_P(ExtentReaderTest, TakesAnotherCopyWhereOneFails) {
  const std::string mirror = folder_ / "mirror";
  write_file(mirror, 0);
  ExtentReaderOptions wanted = options();
  wanted.paths = Paths{Names{path(0), mirror}, Names{path(1)}};
  for (const int broken : {0, 1}) {
    OPEN_OR_SKIP(wanted, [&](const RawRead& read) {
      return Fault{read.file == broken ? EIO : 0, {}};
    });
    read_and_compare({{0, 5, 2000000}, {1, 9, 100000}, {0, 2000000, 100000}});
  }
  int reads[2] = {0, 0};
  OPEN_OR_SKIP(wanted, [&](const RawRead& read) {
    if (read.file < 2) ++reads[read.file];
    return Fault{read.file < 2 && read.offset >= 100 * kBlock ? EBADF : 0, {}};
  });
  const auto over = read_one({0, 80 * kBlock, 60 * kBlock});
  ASSERT_TRUE(over.failure);
  EXPECT_EQ(over.failure->path, path(0));  // the first copy names the file
  EXPECT_EQ(over.failure->problem, std::strerror(EBADF));
  EXPECT_GT(reads[0], 0);
  EXPECT_GT(reads[1], 0);
  // A truncated copy is as good as none.
  std::filesystem::resize_file(path(0), 100);
  OPEN_OR_SKIP(wanted);
  read_and_compare({{0, 5, 2000000}});
}

TEST_P(ExtentReaderTest, WritesNothingAfterItsEnd) {
  OPEN_OR_SKIP(options());
  for (int round = 0; round < 20; ++round) {
    Landings landings(uint64_t{8} << 20);
    for (int i = 0; i < 2; ++i) {
      const Extent extent{i, 0, kFileBytes};
      reader_->start(static_cast<uint64_t>(i), extent, landings.add(extent), ReadPriority::demand);
    }
    reader_.reset();
    const std::vector<std::byte> before(landings.memory().begin(), landings.memory().end());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(std::memcmp(before.data(), landings.memory().data(), before.size()), 0);
    OPEN_OR_SKIP(options());
  }
}

TEST_P(ExtentReaderTest, NamesWhatItCannotOpen) {
  if (!open(options())) GTEST_SKIP() << "refused by this system";
  ExtentReaderOptions wanted = options();
  const auto message = [&] {
    try {
      open(wanted);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      return std::string(error.what());
    }
    return std::string();
  };
  wanted.paths.push_back(Names{folder_ / "missing"});
  EXPECT_NE(message().find(folder_ / "missing"), std::string::npos);
  wanted.paths.back() = Names{path(0), folder_ / "shorter"};
  write_file(folder_ / "shorter", 0, kFileBytes - 1);
  EXPECT_NE(message().find(folder_ / "shorter"), std::string::npos);
  wanted.paths.back() = Names{folder_.path()};
  EXPECT_NE(message().find("folder"), std::string::npos);
}

TEST_P(ExtentReaderTest, SaysHowItReads) {
  OPEN_OR_SKIP(options());
  const std::string text = reader_->description();
  EXPECT_NE(text.find("64 KiB pieces, 8 in flight"), std::string::npos) << text;
  EXPECT_EQ(text.find("io_uring") == 0, GetParam() == IoMode::uring_direct) << text;
  EXPECT_EQ(text.find("O_DIRECT") == std::string::npos, GetParam() == IoMode::threads_buffered);
}

TEST(ExtentReaderModes, HaveNames) {
  for (const IoMode mode : {IoMode::automatic, IoMode::uring_direct, IoMode::threads_direct,
                            IoMode::threads_buffered}) {
    EXPECT_EQ(io_mode_named(io_mode_name(mode)), mode);
  }
  EXPECT_THROW(io_mode_named("mmap"), Error);
}

TEST(ExtentReaderModes, RefuseWrongOptions) {
  TemporaryFolder folder;
  write_file(folder / "file", 0, 10);
  ExtentReaderOptions options;
  options.paths = Paths{Names{folder / "file"}};
  options.piece_bytes = 100;
  EXPECT_THROW(open_extent_reader(options), Error);
  options.piece_bytes = 8192;
  options.depth = 0;
  EXPECT_THROW(open_extent_reader(options), Error);
  options.depth = 1;
  options.paths.push_back({});
  EXPECT_THROW(open_extent_reader(options), Error);
}

TEST(ExtentReaderModes, AutomaticTakesTheFirstThatWorksThreads) {
  TemporaryFolder folder;
  write_file(folder / "file", 0, 100000);
  ExtentReaderOptions options;
  options.paths = Paths{Names{folder / "file"}};
  for (const int refusing : {0, 1, 2, 3}) {
    int asked = 0;
    const RawFactory factory = [&](const RawReaderOptions& raw) -> RawOpened {
      if (asked++ < refusing) return {nullptr, "reason " + std::to_string(asked)};
      // Whether this system takes the mode does not matter here.
      RawReaderOptions buffered = raw;
      buffered.mode = IoMode::threads_buffered;
      return open_raw_reader(buffered);
    };
    if (refusing == 3) {
      EXPECT_THROW(open_extent_reader(options, factory), Error);
      continue;
    }
    const auto reader = open_extent_reader(options, factory);
    const std::array<IoMode, 3> order{IoMode::uring_direct, IoMode::threads_direct,
                                      IoMode::threads_buffered};
    EXPECT_EQ(reader->mode(), order[static_cast<size_t>(refusing)]);
    for (int i = 1; i <= 2; ++i) {
      EXPECT_EQ(reader->description().find("reason " + std::to_string(i)) != std::string::npos,
                i <= refusing);
    }
  }
}

}  // namespace
}  // namespace fathom
