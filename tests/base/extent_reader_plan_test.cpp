// The planning of an ExtentReader, over a raw reader that does what the test says.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/buffer.h"
#include "base/extent_reader_copies.h"
#include "tests/base/faulty_raw_reader.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

using std::chrono::milliseconds;
using Paths = std::vector<std::vector<std::string>>;
using Names = std::vector<std::string>;
constexpr uint64_t kPiece = 8 * ExtentReader::kBlock;

class ExtentReaderPlan : public testing::Test {
 protected:
  ExtentReaderPlan() : memory_(size_t{4} << 20) {
    std::ofstream file(path());
    ExtentReaderOptions options;
    options.paths = Paths{Names{path()}};
    options.mode = IoMode::threads_direct;
    options.piece_bytes = kPiece;
    options.depth = 8;
    reader_ = open_extent_reader(options, [this](const RawReaderOptions&) {
      return RawOpened{std::make_unique<ManualRawReader>(&reads_), ""};
    });
  }
  std::string path() const { return folder_ / "file"; }
  void start(uint64_t ticket, uint64_t pieces, ReadPriority priority) {
    // Each ticket has its own place in the file, so that pieces tell whose they are.
    reader_->start(ticket, {0, ticket << 30, pieces * kPiece}, memory_.data(), priority);
  }
  std::vector<uint64_t> tickets() const {
    std::vector<uint64_t> of;
    for (const RawRead& read : reads_.submitted) of.push_back(read.offset >> 30);
    return of;
  }
  uint64_t finished() {
    const auto result = reader_->next(false);
    return result ? result->ticket : 0;
  }

  TemporaryFolder folder_;
  Buffer memory_;
  ManualReads reads_;
  std::unique_ptr<ExtentReader> reader_;
};

using Tickets = std::vector<uint64_t>;

TEST_F(ExtentReaderPlan, KeepsAsManyPiecesInFlightAsItsDepth) {
  start(1, 20, ReadPriority::demand);
  EXPECT_EQ(reads_.submitted.size(), 8u);
  reads_.end_first(3);
  EXPECT_EQ(finished(), 0u);
  EXPECT_EQ(reads_.submitted.size(), 8u);
  EXPECT_EQ(reads_.total, 11u);
  while (!reads_.submitted.empty()) {
    reads_.end_first(1);
    if (finished() == 1) break;
  }
  EXPECT_EQ(reads_.total, 20u);
  EXPECT_EQ(reader_->outstanding(), 0u);
  EXPECT_EQ(reader_->counters().demand_bytes, 20 * kPiece);
  EXPECT_EQ(reader_->counters().reads, 20u);
}

TEST_F(ExtentReaderPlan, CutsIntoEqualPiecesOfWholeBlocks) {
  reader_->start(1, {0, 5 * ExtentReader::kBlock + 100, kPiece + 1}, memory_.data(),
                 ReadPriority::demand);
  ASSERT_EQ(reads_.submitted.size(), 2u);
  EXPECT_EQ(reads_.submitted[0].offset, 5 * ExtentReader::kBlock);
  EXPECT_EQ(reads_.submitted[0].bytes, 5 * ExtentReader::kBlock);
  EXPECT_EQ(reads_.submitted[1].offset, 10 * ExtentReader::kBlock);
  EXPECT_EQ(reads_.submitted[1].bytes, 4 * ExtentReader::kBlock);
  EXPECT_EQ(reads_.submitted[1].into - reads_.submitted[0].into,
            static_cast<std::ptrdiff_t>(5 * ExtentReader::kBlock));
  reads_.end_first(2);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(reader_->counters().demand_bytes, kPiece + 1);
  EXPECT_EQ(reader_->counters().device_bytes, 9 * ExtentReader::kBlock);
}

TEST_F(ExtentReaderPlan, BackgroundFillsUpAQuarterOfTheQueue) {
  start(1, 5, ReadPriority::background);
  EXPECT_EQ(tickets(), (Tickets{1, 1}));
  start(2, 3, ReadPriority::demand);
  EXPECT_EQ(tickets(), (Tickets{1, 1, 2, 2, 2}));
  reads_.end_first(4);  // one demand piece is left
  EXPECT_EQ(finished(), 0u);
  EXPECT_EQ(tickets(), (Tickets{2, 1}));
  reads_.end_first(1);
  EXPECT_EQ(finished(), 2u);
  EXPECT_EQ(tickets(), (Tickets{1, 1}));
  reads_.end_first(2);
  EXPECT_EQ(finished(), 0u);
  EXPECT_EQ(tickets(), Tickets{1});
  reads_.end_first(1);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(reader_->counters().background_bytes, 5 * kPiece);
  EXPECT_EQ(reader_->counters().demand_bytes, 3 * kPiece);
}

TEST_F(ExtentReaderPlan, DemandGoesBeforeBackgroundThatCameFirst) {
  start(1, 8, ReadPriority::demand);
  start(2, 1, ReadPriority::background);
  start(3, 2, ReadPriority::demand);
  EXPECT_EQ(tickets(), Tickets(8, 1));
  reads_.end_first(1);
  EXPECT_EQ(finished(), 0u);
  EXPECT_EQ(tickets().back(), 3u);
  reads_.end_first(8);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(tickets(), (Tickets{3, 2}));
}

TEST_F(ExtentReaderPlan, PromotedReadsAreDemand) {
  start(1, 8, ReadPriority::demand);
  start(2, 1, ReadPriority::background);
  start(3, 1, ReadPriority::background);
  start(4, 1, ReadPriority::demand);
  reader_->promote(3);
  reader_->promote(99);  // not there: nothing happens
  reads_.end_first(8);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(tickets(), (Tickets{4, 3}));
  reads_.end_first(1);
  EXPECT_EQ(finished(), 4u);
  EXPECT_EQ(tickets(), (Tickets{3, 2}));
  reads_.end_first(2);
  EXPECT_EQ(finished(), 3u);
  EXPECT_EQ(finished(), 2u);
  EXPECT_EQ(reader_->counters().demand_bytes, 10 * kPiece);
  EXPECT_EQ(reader_->counters().background_bytes, kPiece);
}

TEST_F(ExtentReaderPlan, DropsBackgroundThatHasNotBegun) {
  start(1, 4, ReadPriority::background);  // two of its pieces are in flight
  start(2, 4, ReadPriority::background);
  start(3, 4, ReadPriority::background);
  reader_->promote(3);
  reader_->drop_background();
  const auto dropped = reader_->next(false);
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->ticket, 2u);
  EXPECT_TRUE(dropped->dropped);
  EXPECT_FALSE(dropped->failure);
  EXPECT_EQ(reader_->outstanding(), 2u);
  while (reader_->outstanding() > 0) {
    ASSERT_FALSE(reads_.submitted.empty());
    reads_.end_first(1);
    if (const auto over = reader_->next(false)) {
      EXPECT_FALSE(over->dropped);
    }
  }
  EXPECT_EQ(reads_.total, 8u);
}

TEST_F(ExtentReaderPlan, CountsTheTimeUntilTheLastDemandReadLanded) {
  start(1, 1, ReadPriority::demand);
  start(2, 1, ReadPriority::demand);
  const auto began = ReadClock::now();
  reads_.end(0, kPiece, began + milliseconds(1000));
  reads_.end(0, kPiece, began + milliseconds(3000));
  // Landed after three seconds, whenever it is collected.
  EXPECT_EQ(finished(), 1u);
  EXPECT_NEAR(reader_->counters().demand_seconds, 3.0, 0.9);
  start(3, 1, ReadPriority::background);
  reads_.end(0, kPiece, began + milliseconds(9000));
  EXPECT_EQ(finished(), 2u);
  EXPECT_EQ(finished(), 3u);
  EXPECT_NEAR(reader_->counters().demand_seconds, 3.0, 0.9);
}

TEST_F(ExtentReaderPlan, GivesUpAfterABoundedNumberOfRepeats) {
  start(1, 1, ReadPriority::demand);
  size_t rounds = 0;
  while (rounds < 100) {
    if (!reads_.submitted.empty()) {
      reads_.end(0, -EIO, ReadClock::now() - milliseconds(500));  // the back-off is over
      ++rounds;
    }
    if (const auto over = reader_->next(false)) {
      ASSERT_TRUE(over->failure);
      EXPECT_EQ(over->failure->path, path());
      EXPECT_EQ(over->failure->offset, uint64_t{1} << 30);
      break;
    }
  }
  EXPECT_EQ(rounds, 5u);
  EXPECT_EQ(reader_->counters().retries, 4u);
}

TEST_F(ExtentReaderPlan, FailsOnlyWhenNothingIsWrittenAnyMore) {
  start(1, 8, ReadPriority::demand);
  reads_.end(3, -EBADF, ReadClock::now());
  EXPECT_EQ(finished(), 0u);
  reads_.end(1, -EBADF, ReadClock::now());
  EXPECT_EQ(finished(), 0u);
  EXPECT_EQ(reads_.total, 8u);  // no error that passes: not repeated
  reads_.end_first(5);
  EXPECT_EQ(finished(), 0u);
  reads_.end_first(1);
  const auto over = reader_->next(false);
  ASSERT_TRUE(over && over->failure);
  EXPECT_EQ(over->failure->offset, (uint64_t{1} << 30) + kPiece);  // the first that is missing
}

TEST_F(ExtentReaderPlan, ReadsOnAtTheBlockThatCameInPart) {
  start(1, 1, ReadPriority::demand);
  reads_.end(0, 2 * ExtentReader::kBlock + 17, ReadClock::now());
  EXPECT_EQ(finished(), 0u);
  ASSERT_EQ(reads_.submitted.size(), 1u);
  EXPECT_EQ(reads_.submitted[0].offset, (uint64_t{1} << 30) + 2 * ExtentReader::kBlock);
  EXPECT_EQ(reads_.submitted[0].bytes, kPiece - 2 * ExtentReader::kBlock);
  reads_.end_first(1);
  EXPECT_EQ(finished(), 1u);
  EXPECT_EQ(reader_->counters().demand_bytes, kPiece);
}

TEST(FileCopies, SharesByMeasuredSpeed) {
  FileCopies copies(Paths{Names{"a", std::string("b")}});
  const ReadClock::time_point began;
  // Disks that take 1 and 4 units of time per piece, each one piece at a time.
  struct Piece {
    int copy;
    double end;
  };
  std::vector<Piece> flight;
  double free_at[2] = {0, 0};
  int count[2] = {0, 0};
  const double per_piece[2] = {0.001, 0.004};
  double now = 0;
  const auto at = [began](double seconds) {
    return began +
           std::chrono::duration_cast<ReadClock::duration>(std::chrono::duration<double>(seconds));
  };
  for (int i = 0; i < 2000; ++i) {
    while (flight.size() < 16) {
      const int copy = copies.choose(0, 0, 4096);
      ASSERT_GE(copy, 0);
      copies.began(copy, 4096, at(now));
      free_at[copy] = std::max(free_at[copy], now) + per_piece[copy];
      flight.push_back({copy, free_at[copy]});
    }
    const auto first = std::min_element(flight.begin(), flight.end(),
                                        [](auto& a, auto& b) { return a.end < b.end; });
    now = first->end;
    copies.ended(first->copy, 4096, 4096, at(now));
    ++count[first->copy];
    flight.erase(first);
  }
  const double share = count[1] / 2000.0;
  EXPECT_GT(share, 0.17);
  EXPECT_LT(share, 0.23);
  // Both disks together: five pieces in four milliseconds.
  EXPECT_LT(now, 2000 * 0.0008 * 1.05);
}

TEST(FileCopies, TakesAFailedCopyLast) {
  FileCopies copies(Paths{Names{"a", "b", "c"}, Names{"d"}});
  copies.mark_failed(0, 0);
  EXPECT_NE(copies.choose(0, 0, 1), 0);
  EXPECT_EQ(copies.choose(0, 0b110, 1), 0);
  EXPECT_EQ(copies.choose(0, 0b111, 1), -1);
  EXPECT_EQ(copies.choose(1, 0, 1), 0);
  EXPECT_EQ(copies.choose(1, 1, 1), -1);
  EXPECT_EQ(copies.paths()[static_cast<size_t>(copies.raw_file(1, 0))], "d");
  EXPECT_EQ(copies.raw_file(0, 2), 2);
}

TEST(FileCopies, TriesADiskAgainThatWasSlowOnce) {
  FileCopies copies(Paths{Names{"a", std::string("b")}});
  ReadClock::time_point now;
  const auto read = [&](int copy, milliseconds takes) {
    copies.began(copy, 4096, now);
    now += takes;
    copies.ended(copy, 4096, 4096, now);
  };
  read(0, milliseconds(1));
  read(1, milliseconds(500));
  EXPECT_EQ(copies.choose(0, 0, 4096), 0);
  for (int i = 0; i < 1100; ++i) read(0, milliseconds(1));
  EXPECT_EQ(copies.choose(0, 0, 4096), 1);
  copies.began(1, 4096, now);
  EXPECT_EQ(copies.choose(0, 0, 4096), 0);  // one piece is enough to see
}

}  // namespace
}  // namespace fathom
