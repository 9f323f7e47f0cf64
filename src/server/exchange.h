// What passes between a connection's thread and the thread that owns the model, for one request.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/socket.h"
#include "fathom/scheduler.h"

namespace fathom::server {

// One prompt of a request; its samples are numbered from 0.
struct StepEvent {
  int64_t prompt = 0;
  GenerateStep step;
};
struct FinishEvent {
  int64_t prompt = 0;
  int64_t sample = 0;
  GenerateResult result;
};
struct AcceptedEvent {};  // all that could be wrong with it is checked
struct RefusedEvent {     // nothing else follows
  Error error;
};
using ModelEvent = std::variant<StepEvent, FinishEvent, AcceptedEvent, RefusedEvent>;

// Bounded: events beyond `most_bytes` that nobody takes end the request, and the owner's thread
// never waits.
class Exchange {
 public:
  using Clock = std::chrono::steady_clock;

  // The event is woken when there is something to take; it must outlive the exchange.
  Exchange(std::shared_ptr<WakeEvent> wake, size_t most_bytes, bool wants_steps)
      : wake_(std::move(wake)), most_bytes_(most_bytes), wants_steps_(wants_steps) {}

  // The owner's side.
  void push(ModelEvent event, size_t bytes);
  bool wants_steps() const { return wants_steps_; }
  CancelToken& cancel_token() { return cancel_; }

  // The connection's side.
  std::deque<ModelEvent> take();
  void cancel() { cancel_.cancel(); }
  bool overflowed() const;

 private:
  std::shared_ptr<WakeEvent> wake_;
  const size_t most_bytes_;
  const bool wants_steps_;
  CancelToken cancel_;
  mutable std::mutex mutex_;
  std::deque<ModelEvent> events_;
  size_t bytes_ = 0;
  bool overflowed_ = false;
};

}  // namespace fathom::server
