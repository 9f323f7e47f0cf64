#include "cli/interrupt.h"

#include <atomic>
#include <cstdlib>

#include "base/system.h"

namespace fathom::cli {
namespace {

// POSIX gives Ctrl-C the number 2 everywhere.
constexpr int kInterrupt = 2;
constexpr int kMostUnanswered = 3;

CancelToken token;
std::atomic<int> unanswered{0};
std::atomic<int> last_signal{kInterrupt};
std::atomic<bool> terminate{false};

// Only lock-free atomics and _Exit: both may be used in a signal handler.
void handle(int signal) {
  last_signal.store(signal, std::memory_order_relaxed);
  if (signal != kInterrupt) terminate.store(true, std::memory_order_relaxed);
  token.cancel();
  if (unanswered.fetch_add(1, std::memory_order_relaxed) + 1 >= kMostUnanswered) {
    std::_Exit(128 + signal);
  }
}

}  // namespace

void watch_interrupts() { system::on_interrupt(handle); }
CancelToken& interrupt_token() { return token; }
int interrupts() { return unanswered.load(std::memory_order_relaxed); }

void answer_interrupt() {
  unanswered.store(0, std::memory_order_relaxed);
  token.reset();
}

bool asked_to_terminate() { return terminate.load(std::memory_order_relaxed); }
int interrupt_exit_code() { return 128 + last_signal.load(std::memory_order_relaxed); }

}  // namespace fathom::cli
