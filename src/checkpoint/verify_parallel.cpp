#include "checkpoint/verify_parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/threads.h"

namespace fathom {
namespace {

constexpr int kLeastThreads = 4;
constexpr auto kLook = std::chrono::milliseconds(100);

// Its threads only read and count, so that the one that draws is never the one that works.
class Crew {
 public:
  explicit Crew(const FileWork& work) : work_(work) {}

  void run() {
    Progress progress(work_.label, work_.bytes, ProgressUnit::bytes);
    const size_t count = std::min(static_cast<size_t>(std::max(work_.threads, 1)), work_.files);
    std::vector<std::thread> threads;
    {
      const JoinAll join(&threads, &stop_);
      for (size_t i = 0; i < count; ++i) {
        threads.emplace_back([this] { work(); });
        ++running_;
      }
      std::unique_lock lock(mutex_);
      while (ended_ < running_) {
        changed_.wait_for(lock, kLook);
        progress.set(done_.load());
      }
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct JoinAll {
    JoinAll(std::vector<std::thread>* threads, std::atomic<bool>* stop)
        : threads_(threads), stop_(stop) {}
    ~JoinAll() {
      if (std::uncaught_exceptions() > 0) *stop_ = true;
      for (std::thread& thread : *threads_) thread.join();
    }
    std::vector<std::thread>* threads_;
    std::atomic<bool>* stop_;
  };

  void advance(uint64_t bytes) {
    done_ += bytes;
    if (work_.cancel != nullptr) work_.cancel->throw_if_cancelled();
    if (stop_) fail(ErrorKind::cancelled, "another file's error stopped this");
  }

  void work() {
    set_float_environment();
    const std::function<void(uint64_t)> advance = [this](uint64_t bytes) { this->advance(bytes); };
    try {
      for (size_t file; !stop_ && (file = next_++) < work_.files;) work_.task(file, advance);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_one();
  }

  const FileWork& work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  std::atomic<uint64_t> done_{0};
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  size_t running_ = 0;  // the starting thread's own
  size_t ended_ = 0;
};

}  // namespace

void run_file_work(const FileWork& work) { Crew(work).run(); }

int file_threads(int asked) {
  return asked > 0 ? asked : std::max(kLeastThreads, system::processor_count());
}

}  // namespace fathom
