#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/extent_reader_done.h"
#include "base/extent_reader_files.h"

namespace fathom {
namespace {

// Reads wait for the disk most of the time. More threads than this only compete for the processor.
constexpr int kMostThreads = 16;
// They call pread() and nothing else; memory that is never touched still counts in some limits.
constexpr size_t kStackBytes = size_t{256} << 10;

class ThreadReader final : public RawReader {
 public:
  ThreadReader(RawFiles files, int depth, bool buffered)
      : files_(std::move(files)),
        buffered_(buffered),
        waiting_(static_cast<size_t>(depth)),
        done_(depth) {
    const int wanted = std::min(depth, kMostThreads);
    threads_.reserve(static_cast<size_t>(wanted));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    // Signals are for the threads that look at them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = 0;
    while (problem == 0 && threads_.size() < static_cast<size_t>(wanted)) {
      pthread_t thread;
      problem = pthread_create(&thread, &attributes, &ThreadReader::enter, this);
      if (problem == 0) threads_.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    // Fewer threads than wanted will do.
    if (threads_.empty()) {
      fail(ErrorKind::io, "cannot start a thread that reads: {}", std::strerror(problem));
    }
  }

  ~ThreadReader() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      count_ = 0;  // reads that no thread has begun
    }
    begin_.notify_all();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

  void submit(const RawRead& read) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_[(first_ + count_++) % waiting_.size()] = read;
    }
    begin_.notify_one();
  }

  void flush() override {}
  std::optional<RawDone> collect(ReadClock::duration patience) override {
    return done_.take(patience);
  }
  bool register_memory(std::span<std::byte>) override { return false; }
  std::string notes() const override { return fmt::format("{} threads", threads_.size()); }

 private:
  static void* enter(void* self) {
    static_cast<ThreadReader*>(self)->work();
    return nullptr;
  }

  void work() {
    while (true) {
      RawRead read;
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [this] { return stop_ || count_ > 0; });
        if (stop_) return;
        read = waiting_[first_];
        first_ = (first_ + 1) % waiting_.size();
        --count_;
      }
      const int descriptor = files_[read.file];
      const auto offset = static_cast<off_t>(read.offset);
      const ssize_t got = pread(descriptor, read.into, read.bytes, offset);
      const int64_t result = got < 0 ? -static_cast<int64_t>(errno) : static_cast<int64_t>(got);
      if (buffered_) {
        posix_fadvise(descriptor, offset, static_cast<off_t>(read.bytes), POSIX_FADV_DONTNEED);
      }
      done_.put(read.slot, result);
    }
  }

  RawFiles files_;
  const bool buffered_;
  std::vector<pthread_t> threads_;
  std::mutex mutex_;
  std::condition_variable begin_;
  std::vector<RawRead> waiting_;  // a ring
  size_t first_ = 0;
  size_t count_ = 0;
  bool stop_ = false;
  DoneQueue done_;
};

}  // namespace

std::unique_ptr<RawReader> make_thread_reader(RawFiles files, int depth, bool buffered) {
  return std::make_unique<ThreadReader>(std::move(files), depth, buffered);
}

}  // namespace fathom
