// The open files of a raw reader, and the two ways of reading that are built on them. Included by
// extent_reader_*_posix.cpp alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/extent_reader_raw.h"

namespace fathom {

class RawFiles {
 public:
  RawFiles() = default;
  ~RawFiles();
  RawFiles(RawFiles&& other) noexcept : descriptors_(std::move(other.descriptors_)) {
    other.descriptors_.clear();
  }
  RawFiles& operator=(RawFiles&&) = delete;

  // Opens them all, past the page cache where `direct`. Returns why that is refused, "" where it
  // is not; a file that cannot be opened at all is an Error(io).
  std::string open(const std::vector<std::string>& paths, bool direct);

  const std::vector<int>& descriptors() const { return descriptors_; }
  int operator[](int file) const { return descriptors_[static_cast<size_t>(file)]; }

 private:
  std::vector<int> descriptors_;
};

// pread() in threads. Where `buffered`, the page cache is told to forget what was read.
std::unique_ptr<RawReader> make_thread_reader(RawFiles files, int depth, bool buffered);
// The system's own queue; refused where the system has none for us.
RawOpened make_uring_reader(RawFiles files, int depth);

}  // namespace fathom
