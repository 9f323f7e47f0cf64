// A flag by which a caller on any thread (or a signal handler) stops long work.
#pragma once

#include <atomic>

#include "fathom/error.h"

namespace fathom {

class CancelToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  void reset() { cancelled_.store(false, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  void throw_if_cancelled() const {
    if (cancelled()) throw Error(ErrorKind::cancelled, "stopped on request");
  }

 private:
  std::atomic<bool> cancelled_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace fathom
