#include "server/exchange.h"

namespace fathom::server {

void Exchange::push(ModelEvent event, size_t bytes) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (overflowed_) return;
    bytes_ += bytes;
    if (bytes_ > most_bytes_) {
      overflowed_ = true;
      events_.clear();
      cancel_.cancel();
    } else {
      events_.push_back(std::move(event));
    }
    first = events_.size() <= 1;
  }
  if (first) wake_->wake();
}

std::deque<ModelEvent> Exchange::take() {
  const std::lock_guard lock(mutex_);
  wake_->clear();
  bytes_ = 0;
  return std::exchange(events_, {});
}

bool Exchange::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

}  // namespace fathom::server
