// Raw readers for tests: one that fails on purpose over a real one, and one that is over when told.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/extent_reader_raw.h"

namespace fathom {

// What happens to one read instead of what should.
struct Fault {
  int error = 0;                    // an errno value
  std::optional<uint64_t> at_most;  // no more bytes than these come
};

class FaultyRawReader final : public RawReader {
 public:
  using Plan = std::function<Fault(const RawRead& read)>;

  FaultyRawReader(std::unique_ptr<RawReader> inner, Plan plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  void submit(const RawRead& read) override {
    const Fault fault = plan_(read);
    at_most_[read.slot] = fault.at_most.value_or(read.bytes);
    if (fault.error != 0) {
      failed_.push_back({read.slot, -static_cast<int64_t>(fault.error), ReadClock::now()});
    } else {
      inner_->submit(read);
    }
  }
  void flush() override { inner_->flush(); }
  std::optional<RawDone> collect(ReadClock::duration patience) override {
    if (!failed_.empty()) {
      const RawDone done = failed_.front();
      failed_.pop_front();
      return done;
    }
    auto done = inner_->collect(patience);
    if (done && done->result > 0) {
      done->result = std::min(done->result, static_cast<int64_t>(at_most_[done->slot]));
    }
    return done;
  }
  bool register_memory(std::span<std::byte> memory) override {
    return inner_->register_memory(memory);
  }
  std::string notes() const override { return inner_->notes(); }

 private:
  std::unique_ptr<RawReader> inner_;
  Plan plan_;
  std::deque<RawDone> failed_;
  std::map<int, uint64_t> at_most_;
};

inline RawFactory faulty_factory(FaultyRawReader::Plan plan) {
  return [plan](const RawReaderOptions& options) {
    RawOpened opened = open_raw_reader(options);
    if (opened.reader != nullptr) {
      opened.reader = std::make_unique<FaultyRawReader>(std::move(opened.reader), plan);
    }
    return opened;
  };
}

// Reads nothing: a test looks at what was asked for and says what came of it.
struct ManualReads {
  std::vector<RawRead> submitted;  // and not over
  std::deque<RawDone> over;
  size_t total = 0;

  void end(size_t i, int64_t result, ReadClock::time_point when) {
    over.push_back({submitted[i].slot, result, when});
    submitted.erase(submitted.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // Ends the oldest `count` in full.
  void end_first(size_t count) {
    while (count-- > 0) end(0, static_cast<int64_t>(submitted[0].bytes), ReadClock::now());
  }
};

class ManualRawReader final : public RawReader {
 public:
  explicit ManualRawReader(ManualReads* reads) : reads_(reads) {}
  void submit(const RawRead& read) override {
    reads_->submitted.push_back(read);
    ++reads_->total;
  }
  void flush() override {}
  std::optional<RawDone> collect(ReadClock::duration) override {
    if (reads_->over.empty()) return std::nullopt;
    const RawDone done = reads_->over.front();
    reads_->over.pop_front();
    return done;
  }
  bool register_memory(std::span<std::byte>) override { return false; }
  std::string notes() const override { return "by hand"; }

 private:
  ManualReads* reads_;
};

}  // namespace fathom
