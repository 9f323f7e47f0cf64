// A file that one process alone changes, in place and for long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace fathom {

// A regular file open for reading and writing, created where there is none. While it is open, no
// other LockedFile on it can be, in this process or another: Error(io) says that it is in use. (On
// file systems without locks everybody gets in.) Every error names the path and the offset. Used by
// one thread.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const;
  void read_at(uint64_t offset, std::span<std::byte> into) const;
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void truncate(uint64_t size);
  // Returns when all that was written is on the device.
  void sync();
  // Bytes that were read, or written and synced, no longer take memory in the page cache.
  void drop_cached(uint64_t offset, uint64_t bytes) const;

  // Replacing the whole: begin() turns all calls to a new, empty file beside this one; commit()
  // puts it in this one's place, where it appears whole or not at all; discard() goes back to this
  // one. What a killed process left half-done is overwritten by the next begin().
  void begin_replacement();
  void commit_replacement();
  void discard_replacement();

 private:
  void fail_io(const char* what, uint64_t offset) const;

  std::string path_;    // as it was named
  std::string target_;  // links followed
  int descriptor_ = -1;
  int replaced_ = -1;  // the descriptor of the old contents during a replacement
};

}  // namespace fathom
