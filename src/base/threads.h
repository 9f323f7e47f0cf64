// The thread pool: parallel loops whose result does not depend on the number of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fathom {

// Runs loops over independent tasks. The calling thread works too, so ThreadPool(1) starts none.
// One thread at a time may call parallel_for; tasks must not call it.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, worker) for every index in [0, count), in any order and on any worker
  // (0 <= worker < threads()); returns when all have ended. The first exception is rethrown here.
  template <typename Task>
  void parallel_for(int64_t count, const Task& task) {
    run(count, &task, [](const void* context, int64_t index, int worker) {
      (*static_cast<const Task*>(context))(index, worker);
    });
  }

 private:
  using Call = void (*)(const void* context, int64_t index, int worker);
  void run(int64_t count, const void* context, Call call);
  void work(int worker);
  void worker_loop(int worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::atomic<uint64_t> generation_{0};  // a new loop has begun
  std::atomic<int> active_{0};           // workers still in the current loop
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stop_{false};
  int64_t count_ = 0;
  const void* context_ = nullptr;
  Call call_ = nullptr;
  std::exception_ptr error_;
};

// Sets the floating-point environment that the same-bits promise needs on the calling thread:
// round to nearest even, denormals kept. The pool's workers call it themselves.
void set_float_environment();

}  // namespace fathom
