// Files, read at offsets and written whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/cancel.h"

namespace fathom {

// A regular file open for reading; pipes, sockets and devices are refused, never waited for. Every
// error names the path (and the offset).
class File {
 public:
  File() = default;
  explicit File(const std::string& path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Fills `into` from `offset`; interrupted and short reads go on, an end of file before the last
  // byte is an Error(io). Any number of threads may read at once.
  void read_at(uint64_t offset, std::span<std::byte> into) const;
  // What was read there no longer takes memory in the page cache.
  void drop_cached(uint64_t offset, uint64_t bytes) const;

 private:
  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
};

// The whole of a text file; longer than `limit` bytes is an Error(input).
std::string read_text(const std::string& path, uint64_t limit = uint64_t{1} << 30);

// All that can be read from what a user named as a text: a file, but also a pipe, a device or a
// file of unknown size (/proc). Waits where it has to; `cancel` is asked when a signal comes in
// between.
std::string read_stream(const std::string& path, uint64_t limit = uint64_t{1} << 30,
                        const CancelToken* cancel = nullptr);

// Returns when the entry of `path` in its folder is on the device; without it a new file or a new
// name may be gone after a power failure. File systems that cannot do that are left alone.
void sync_folder_of(const std::string& path);

// A file that appears under its name only when commit() has succeeded: written beside it under a
// temporary name, flushed to the device, then renamed. Destroyed without commit(), it leaves
// nothing behind. A link is followed, and what is there and no regular file (/dev/null, a pipe) is
// written to directly.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // `bytes` zeros, as a hole where the file system keeps holes. Not for devices and pipes.
  void skip(uint64_t bytes);
  // What the file takes of the disk so far; less than was written and skipped where it has holes.
  uint64_t disk_bytes() const;
  void commit();

 private:
  std::string path_;
  std::string final_;      // path_ with links followed
  std::string temporary_;  // empty where path_ is written to directly
  int descriptor_ = -1;
};

}  // namespace fathom
