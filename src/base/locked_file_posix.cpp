#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/locked_file.h"

namespace fathom {
namespace {

constexpr mode_t kPrivate = 0600;  // a conversation is nobody else's business

std::string reason() { return std::strerror(errno); }

bool same_file(int descriptor, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// False where somebody else holds the lock.
bool lock(int descriptor) {
  int result = 0;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno != EWOULDBLOCK;
}

std::string replacement_name(const std::string& target) { return target + ".new"; }

}  // namespace

LockedFile::LockedFile(const std::string& path) : path_(path) {
  std::error_code ignored;
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, ignored);
  target_ = ignored || target.empty() ? path : target.string();
  while (true) {
    descriptor_ = open(target_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, kPrivate);
    if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot open: {}", path_, reason());
    struct stat status {};
    const bool regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
    if (!regular || !lock(descriptor_)) {
      close(std::exchange(descriptor_, -1));
      fail(ErrorKind::io, "{}: {}", path_,
           regular ? "another program is using it" : "this is no regular file");
    }
    // The lock's last holder may have put another file in the place of the one we opened.
    if (same_file(descriptor_, target_)) return;
    close(std::exchange(descriptor_, -1));
  }
}

LockedFile::~LockedFile() {
  if (replaced_ >= 0) discard_replacement();
  if (descriptor_ >= 0) close(descriptor_);
}

void LockedFile::fail_io(const char* what, uint64_t offset) const {
  fail(ErrorKind::io, "{}: cannot {} at offset {}: {}", path_, what, offset, reason());
}

uint64_t LockedFile::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail_io("find the end", 0);
  return static_cast<uint64_t>(status.st_size);
}

void LockedFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io("read", offset);
    if (got == 0) {
      fail(ErrorKind::io, "{}: the file ends at offset {}, {} bytes before what was wanted", path_,
           offset, into.size());
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void LockedFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_io("write", offset);
    bytes = bytes.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
}

void LockedFile::truncate(uint64_t size) {
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail_io("cut the file", size);
}

void LockedFile::sync() {
  if (fdatasync(descriptor_) != 0) {
    fail(ErrorKind::io, "{}: cannot flush: {}", path_, reason());
  }
}

void LockedFile::drop_cached(uint64_t offset, uint64_t bytes) const {
  // Advice: where it is not heeded nothing is lost.
  posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
}

void LockedFile::begin_replacement() {
  // The lock on the old file makes this name ours; an old one of it is what a kill has left.
  const std::string name = replacement_name(target_);
  unlink(name.c_str());
  const int descriptor =
      open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kPrivate);
  if (descriptor < 0) fail(ErrorKind::io, "{}: cannot create {}: {}", path_, name, reason());
  lock(descriptor);
  replaced_ = std::exchange(descriptor_, descriptor);
}

void LockedFile::commit_replacement() {
  const std::string name = replacement_name(target_);
  if (fsync(descriptor_) != 0)
    fail(ErrorKind::io, "{}: cannot flush {}: {}", path_, name, reason());
  if (rename(name.c_str(), target_.c_str()) != 0) {
    fail(ErrorKind::io, "{}: cannot rename {} to it: {}", path_, name, reason());
  }
  close(std::exchange(replaced_, -1));
  try {
    sync_folder_of(target_);
  } catch (const Error&) {
    // The new contents are in force, and a device that fails here fails the next sync() too.
  }
}

void LockedFile::discard_replacement() {
  unlink(replacement_name(target_).c_str());
  close(descriptor_);
  descriptor_ = std::exchange(replaced_, -1);
}

}  // namespace fathom
