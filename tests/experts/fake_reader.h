// A reader whose order of landing, delays and failures a test decides.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/extent_reader.h"
#include "base/file.h"

namespace fathom {

enum class LandingOrder { first_started, last_started, random };

// What the test looks at and steers, shared with the reader that the store owns.
struct FakeDisk {
  LandingOrder order = LandingOrder::first_started;
  int polls_per_landing = 0;  // next(false) is answered with nothing so often before each
  bool background_lands = true;
  // Called for every read when it is to land; an answer is its failure.
  std::function<std::optional<ReadFailure>(const Extent&)> failure;
  std::function<void()> on_poll;

  std::vector<Extent> started;  // in order
  std::vector<ReadPriority> priorities;
  size_t most_outstanding = 0;
  size_t outstanding = 0;
  uint64_t promoted = 0;
  uint64_t dropped = 0;
  ReaderCounters counters;
};

class FakeReader : public ExtentReader {
 public:
  FakeReader(FakeDisk& disk, const std::vector<std::string>& paths) : disk_(&disk), random_(7) {
    for (const std::string& path : paths) files_.emplace_back(path);
  }

  IoMode mode() const override { return IoMode::threads_buffered; }
  std::string description() const override { return "a test's reader"; }
  bool register_memory(std::span<std::byte> memory) override {
    memory_ = memory;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kBlock, 0u);
    return false;
  }

  void start(Ticket ticket, const Extent& extent, std::byte* into, ReadPriority priority) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(into) % kBlock, 0u);
    EXPECT_GE(into, memory_.data());
    EXPECT_LE(into + landing_bytes(extent), memory_.data() + memory_.size());
    for (const Read& other : reads_) {
      EXPECT_NE(other.ticket, ticket);
      EXPECT_FALSE(into < other.into + landing_bytes(other.extent) &&
                   other.into < into + landing_bytes(extent))
          << "two reads into the same memory";
    }
    // What is used before it lands is wrong for certain.
    std::memset(into, 0x55, landing_bytes(extent));
    reads_.push_back({ticket, extent, into, priority});
    disk_->started.push_back(extent);
    disk_->priorities.push_back(priority);
    note();
  }
  void promote(Ticket ticket) override {
    for (Read& read : reads_) {
      if (read.ticket == ticket) read.priority = ReadPriority::demand;
    }
    ++disk_->promoted;
  }
  void drop_background() override {
    for (Read& read : reads_) {
      if (read.priority == ReadPriority::background) read.dropped = true;
    }
  }
  std::optional<Finished> next(bool wait) override {
    if (disk_->on_poll) disk_->on_poll();
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (!reads_[i].dropped) continue;
      ++disk_->dropped;
      return take(i, {reads_[i].ticket, std::nullopt, true});
    }
    std::vector<size_t> candidates;
    for (const ReadPriority priority : {ReadPriority::demand, ReadPriority::background}) {
      if (priority == ReadPriority::background && !disk_->background_lands && !wait) break;
      for (size_t i = 0; i < reads_.size(); ++i) {
        if (reads_[i].priority == priority) candidates.push_back(i);
      }
      if (!candidates.empty()) break;
    }
    if (candidates.empty()) return std::nullopt;
    if (!wait && polls_++ < disk_->polls_per_landing) return std::nullopt;
    polls_ = 0;
    size_t at = candidates.front();
    if (disk_->order == LandingOrder::last_started) at = candidates.back();
    if (disk_->order == LandingOrder::random) at = candidates[random_() % candidates.size()];
    return land(at);
  }
  size_t outstanding() const override { return reads_.size(); }
  ReaderCounters counters() const override { return disk_->counters; }

 private:
  struct Read {
    Ticket ticket;
    Extent extent;
    std::byte* into;
    ReadPriority priority;
    bool dropped = false;
  };
  Finished land(size_t at) {
    const Read& read = reads_[at];
    Finished finished{read.ticket, std::nullopt, false};
    if (disk_->failure) finished.failure = disk_->failure(read.extent);
    if (!finished.failure) {
      const File& file = files_[static_cast<size_t>(read.extent.file)];
      const uint64_t begin = read.extent.offset - landing_offset(read.extent);
      const uint64_t end = std::min(file.size(), begin + landing_bytes(read.extent));
      file.read_at(begin, {read.into, end - begin});
    }
    (read.priority == ReadPriority::demand ? disk_->counters.demand_bytes
                                           : disk_->counters.background_bytes) += read.extent.bytes;
    return take(at, finished);
  }
  Finished take(size_t at, const Finished& finished) {
    reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(at));
    note();
    return finished;
  }
  void note() {
    disk_->outstanding = reads_.size();
    disk_->most_outstanding = std::max(disk_->most_outstanding, reads_.size());
  }

  FakeDisk* disk_;
  std::mt19937 random_;
  std::vector<File> files_;
  std::span<std::byte> memory_;
  std::vector<Read> reads_;
  int polls_ = 0;
};

}  // namespace fathom
