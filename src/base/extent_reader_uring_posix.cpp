#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/extent_reader_done.h"
#include "base/extent_reader_files.h"

namespace fathom {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
// The system takes at most this much as one registered buffer.
constexpr size_t kLargestBuffer = size_t{1} << 30;
// A queue that takes nothing for so many milliseconds will not take anything any more.
constexpr int kMostRefusals = 2000;

// The owner fills the submission queue; a thread of its own empties the completion queue, so that
// the time of each completion is known however busy the owner is.
class UringReader final : public RawReader {
 public:
  // Returns why the system refuses, "" where it does not.
  std::string open(RawFiles files, int depth) {
    const int problem = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
    if (problem != 0) return fmt::format("io_uring is refused: {}", std::strerror(-problem));
    ring_open_ = true;
    files_.emplace(std::move(files));
    registered_files_ =
        io_uring_register_files(&ring_, files_->descriptors().data(),
                                static_cast<unsigned>(files_->descriptors().size())) == 0;
    done_.emplace(depth);
    unsent_.reserve(static_cast<size_t>(depth));
    stop_ = eventfd(0, EFD_CLOEXEC);
    if (stop_ < 0) return fmt::format("io_uring: no event to stop it by: {}", std::strerror(errno));
    return start_thread();
  }

  ~UringReader() override {
    while (in_flight_ > 0) collect(std::chrono::seconds(1));
    if (thread_running_) {
      const uint64_t one = 1;
      // An event's counter takes a one at any time.
      while (write(stop_, &one, sizeof(one)) < 0 && errno == EINTR) {
      }
      pthread_join(thread_, nullptr);
    }
    if (stop_ >= 0) close(stop_);
    if (ring_open_) io_uring_queue_exit(&ring_);
  }

  void submit(const RawRead& read) override {
    ++in_flight_;
    io_uring_sqe* entry = broken_ == 0 ? io_uring_get_sqe(&ring_) : nullptr;
    if (entry == nullptr) {
      done_->put(read.slot, broken_ != 0 ? -broken_ : -EAGAIN);
      return;
    }
    const int file = registered_files_ ? read.file : (*files_)[read.file];
    const auto bytes = static_cast<unsigned>(read.bytes);
    const int buffer = registered_buffer(read);
    if (buffer >= 0) {
      io_uring_prep_read_fixed(entry, file, read.into, bytes, read.offset, buffer);
    } else {
      io_uring_prep_read(entry, file, read.into, bytes, read.offset);
    }
    if (registered_files_) entry->flags |= IOSQE_FIXED_FILE;
    entry->user_data = static_cast<uint64_t>(read.slot);
    unsent_.push_back(read.slot);
  }

  void flush() override {
    while (!unsent_.empty() && broken_ == 0) {
      const int sent = io_uring_submit(&ring_);
      if (sent > 0) {
        unsent_.erase(unsent_.begin(), unsent_.begin() + std::min<ptrdiff_t>(sent, ssize(unsent_)));
        refusals_ = 0;
      } else if (sent == -EINTR) {
        continue;
      } else if ((sent == 0 || sent == -EAGAIN || sent == -EBUSY) && ++refusals_ < kMostRefusals) {
        return;  // the system has no memory for it at the moment: collect() tries again
      } else {
        broken_ = sent == 0 ? EAGAIN : -sent;
        for (const int slot : unsent_) done_->put(slot, -broken_);
        unsent_.clear();
      }
    }
  }

  std::optional<RawDone> collect(ReadClock::duration patience) override {
    const auto until = ReadClock::now() + patience;
    while (true) {
      flush();
      const auto left = std::max(until - ReadClock::now(), ReadClock::duration::zero());
      const auto until_retry = ReadClock::duration(std::chrono::milliseconds(1));
      const auto done = done_->take(unsent_.empty() ? left : std::min(left, until_retry));
      if (done) --in_flight_;
      if (done || unsent_.empty() || left == ReadClock::duration::zero()) return done;
    }
  }

  bool register_memory(std::span<std::byte> memory) override {
    if (in_flight_ > 0) return false;
    const size_t before = buffers_.size();
    for (size_t at = 0; at < memory.size(); at += kLargestBuffer) {
      buffers_.push_back({memory.data() + at, std::min(kLargestBuffer, memory.size() - at)});
    }
    if (buffers_.size() == before) return false;
    // One table holds all of them and is only ever replaced.
    if (before > 0) io_uring_unregister_buffers(&ring_);
    if (register_buffers()) return true;
    buffers_.resize(before);
    if (before > 0 && !register_buffers()) buffers_.clear();
    return false;
  }

  std::string notes() const override {
    std::string notes = registered_files_ ? "registered files" : "";
    if (!buffers_.empty()) notes += notes.empty() ? "registered buffers" : ", registered buffers";
    return notes;
  }

 private:
  bool register_buffers() {
    return io_uring_register_buffers(&ring_, buffers_.data(),
                                     static_cast<unsigned>(buffers_.size())) == 0;
  }

  // The registered buffer that a read lies in as a whole, or -1.
  int registered_buffer(const RawRead& read) const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const auto* begin = static_cast<const std::byte*>(buffers_[i].iov_base);
      if (read.into >= begin && read.into + read.bytes <= begin + buffers_[i].iov_len) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  std::string start_thread() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    sigset_t all, before;  // signals are for the threads that look at them
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int problem = pthread_create(&thread_, &attributes, &UringReader::enter, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    thread_running_ = problem == 0;
    if (thread_running_) return "";
    return fmt::format("io_uring: no thread to wait for it: {}", std::strerror(problem));
  }

  static void* enter(void* self) {
    static_cast<UringReader*>(self)->work();
    return nullptr;
  }

  void work() {
    pollfd waits[2] = {{ring_.ring_fd, POLLIN, 0}, {stop_, POLLIN, 0}};
    while (true) {
      io_uring_cqe* entry = nullptr;
      while (io_uring_peek_cqe(&ring_, &entry) == 0 && entry != nullptr) {
        const int slot = static_cast<int>(entry->user_data);
        const int64_t result = entry->res;
        io_uring_cqe_seen(&ring_, entry);
        done_->put(slot, result);
      }
      if (poll(waits, 2, -1) > 0 && (waits[1].revents & POLLIN) != 0) return;
    }
  }

  std::optional<RawFiles> files_;
  io_uring ring_{};
  bool ring_open_ = false;
  bool registered_files_ = false;
  std::vector<iovec> buffers_;
  std::vector<int> unsent_;  // slots, in the order of the submission queue
  int in_flight_ = 0;        // submitted and not collected
  int refusals_ = 0;
  int broken_ = 0;  // an errno value: the queue takes nothing any more
  std::optional<DoneQueue> done_;
  int stop_ = -1;
  pthread_t thread_{};
  bool thread_running_ = false;
};

}  // namespace

RawOpened make_uring_reader(RawFiles files, int depth) {
  auto reader = std::make_unique<UringReader>();
  std::string refused = reader->open(std::move(files), depth);
  if (!refused.empty()) return {nullptr, std::move(refused)};
  return {std::move(reader), ""};
}

}  // namespace fathom
