// Which of several copies of a file to read a piece from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/extent_reader_raw.h"

namespace fathom {

// Copies of the same number (the first ones of all files, the second ones, ...) are taken to be on
// one disk. A piece goes to the disk that will have read it first, by the bytes it still has to
// read and the speed measured so far; a disk that was not measured for long gets one piece to try.
class FileCopies {
 public:
  static constexpr int kMost = 32;  // copies of one file

  explicit FileCopies(const std::vector<std::vector<std::string>>& paths);

  const std::string& first_path(int file) const { return paths_[index(file, 0)]; }
  const std::vector<std::string>& paths() const { return paths_; }
  // Index into paths().
  int raw_file(int file, int copy) const { return static_cast<int>(index(file, copy)); }

  // The copy to read, none of `tried` (bits), or -1. One that failed before is the last choice.
  int choose(int file, uint32_t tried, uint64_t bytes) const;
  void mark_failed(int file, int copy) { failed_[index(file, copy)] = true; }

  void began(int copy, uint64_t bytes, ReadClock::time_point now);
  // `got` is what came of `bytes`.
  void ended(int copy, uint64_t bytes, uint64_t got, ReadClock::time_point when);

 private:
  struct Disk {
    uint64_t waiting = 0;    // bytes asked for that have not come yet
    double bytes = 0;        // recently read, in
    double seconds = 0;      // so much time with anything to read
    uint64_t last_used = 0;  // value of used_
    ReadClock::time_point since;

    bool known() const { return bytes >= 1 && seconds > 0; }
    double speed() const { return bytes / seconds; }
  };

  size_t index(int file, int copy) const {
    return first_[static_cast<size_t>(file)] + static_cast<size_t>(copy);
  }

  std::vector<std::string> paths_;  // of all copies of all files
  std::vector<size_t> first_;       // per file, and the end
  std::vector<char> failed_;
  std::vector<Disk> disks_;
  uint64_t used_ = 0;  // reads begun
};

}  // namespace fathom
