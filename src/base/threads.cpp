#include "base/threads.h"

#include <algorithm>
#include <cfenv>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom {
namespace {

// A waiting worker spins this often before it sleeps: loops follow each other within microseconds
// during decoding, and waking a sleeper costs more than most of them.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void set_float_environment() {
#if defined(__x86_64__)
  _mm_setcsr(0x1f80);  // all exceptions masked, nearest even, no flush to zero
#elif defined(__aarch64__)
  uint64_t fpcr = 0;
  asm volatile("msr fpcr, %0" : : "r"(fpcr));
#else
  std::fesetenv(FE_DFL_ENV);
#endif
}

ThreadPool::ThreadPool(int threads) {
  set_float_environment();
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { worker_loop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t count, const void* context, Call call) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int64_t index = 0; index < count; ++index) call(context, index, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    count_ = count;
    context_ = context;
    call_ = call;
    error_ = nullptr;
    next_.store(0, std::memory_order_relaxed);
    active_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
  }
  start_.notify_all();
  work(0);
  for (int spin = 0; spin < kSpins; ++spin) {
    if (active_.load(std::memory_order_acquire) == 0) break;
    pause_briefly();
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return active_.load(std::memory_order_acquire) == 0; });
  if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(int worker) {
  try {
    for (int64_t index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
      call_(context_, index, worker);
    }
  } catch (...) {
    next_.store(count_, std::memory_order_relaxed);  // the others need not go on
    const std::lock_guard lock(mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
}

void ThreadPool::worker_loop(int worker) {
  set_float_environment();
  uint64_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (generation_.load(std::memory_order_acquire) != seen || stop_) break;
      pause_briefly();
    }
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
      if (stop_) return;
      seen = generation_.load();
    }
    work(worker);
    if (active_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace fathom
