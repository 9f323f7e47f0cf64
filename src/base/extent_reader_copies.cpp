#include "base/extent_reader_copies.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace fathom {
namespace {

// The measured speed is that of the last few hundred MiB.
constexpr double kRememberedBytes = 256 << 20;
// After so many reads of other disks a disk's speed is measured anew.
constexpr uint64_t kForgetAfter = 1024;

}  // namespace

FileCopies::FileCopies(const std::vector<std::vector<std::string>>& paths) {
  size_t disks = 0;
  for (const std::vector<std::string>& copies : paths) {
    if (copies.empty()) fail_usage("a file to read from has no path");
    if (copies.size() > kMost) {
      fail_usage("{}: {} copies are more than the {} that can share the load", copies[0],
                 copies.size(), kMost);
    }
    first_.push_back(paths_.size());
    paths_.insert(paths_.end(), copies.begin(), copies.end());
    disks = std::max(disks, copies.size());
  }
  first_.push_back(paths_.size());
  failed_.resize(paths_.size());
  disks_.resize(disks);
}

int FileCopies::choose(int file, uint32_t tried, uint64_t bytes) const {
  const auto copies =
      static_cast<int>(first_[static_cast<size_t>(file) + 1] - first_[static_cast<size_t>(file)]);
  if (copies == 1) return (tried & 1u) == 0 ? 0 : -1;
  const auto known = [this](int copy) {
    const Disk& disk = disks_[static_cast<size_t>(copy)];
    return disk.known() && used_ - disk.last_used < kForgetAfter;
  };
  double fastest = 0;
  for (int copy = 0; copy < copies; ++copy) {
    if (known(copy)) fastest = std::max(fastest, disks_[static_cast<size_t>(copy)].speed());
  }
  int best = -1;
  bool best_failed = false;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (int copy = 0; copy < copies; ++copy) {
    if ((tried >> copy & 1u) != 0) continue;
    const Disk& disk = disks_[static_cast<size_t>(copy)];
    const bool failed = failed_[index(file, copy)] != 0;
    double seconds;
    if (known(copy)) {
      seconds = static_cast<double>(disk.waiting + bytes) / disk.speed();
    } else if (fastest == 0) {
      seconds = static_cast<double>(disk.waiting + bytes);  // none is known: share equally
    } else if (disk.waiting == 0) {
      seconds = 0;
    } else {
      seconds = std::numeric_limits<double>::max();  // its first piece will tell
    }
    if (best < 0 || (best_failed && !failed) || (best_failed == failed && seconds < best_seconds)) {
      best = copy;
      best_failed = failed;
      best_seconds = seconds;
    }
  }
  return best;
}

void FileCopies::began(int copy, uint64_t bytes, ReadClock::time_point now) {
  Disk& disk = disks_[static_cast<size_t>(copy)];
  if (used_ - disk.last_used >= kForgetAfter) disk.bytes = disk.seconds = 0;
  if (disk.waiting == 0) disk.since = now;
  disk.waiting += bytes;
  disk.last_used = ++used_;
}

void FileCopies::ended(int copy, uint64_t bytes, uint64_t got, ReadClock::time_point when) {
  Disk& disk = disks_[static_cast<size_t>(copy)];
  disk.seconds += std::max(0.0, std::chrono::duration<double>(when - disk.since).count());
  disk.bytes += static_cast<double>(got);
  disk.since = std::max(disk.since, when);
  disk.waiting -= bytes;
  if (disk.bytes > kRememberedBytes) {
    disk.bytes /= 2;
    disk.seconds /= 2;
  }
}

}  // namespace fathom
