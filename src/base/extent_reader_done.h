// Reads that are over, on their way from the threads that saw them end to the one that collects
// them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "base/extent_reader_raw.h"

namespace fathom {

// Holds as many as there are slots, so that putting never waits and allocates nothing.
class DoneQueue {
 public:
  explicit DoneQueue(int slots) : ring_(static_cast<size_t>(slots)) {}

  void put(int slot, int64_t result) {
    {
      // The time is taken under the lock: order in the queue is order in time.
      const std::lock_guard lock(mutex_);
      ring_[(first_ + count_++) % ring_.size()] = {slot, result, ReadClock::now()};
    }
    filled_.notify_one();
  }

  std::optional<RawDone> take(ReadClock::duration patience) {
    std::unique_lock lock(mutex_);
    if (count_ == 0) {
      if (patience <= ReadClock::duration::zero()) return std::nullopt;
      const auto until = ReadClock::now() + patience;
      if (!filled_.wait_until(lock, until, [this] { return count_ > 0; })) return std::nullopt;
    }
    const RawDone done = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return done;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<RawDone> ring_;
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace fathom
