// O_DIRECT is no part of POSIX; the C library shows it to those who ask.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/extent_reader_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace fathom {
namespace {

// Whether a block of the file can be read into aligned memory. Some file systems take the flag and
// then refuse every read, or want larger blocks.
bool reads_a_block(int descriptor) {
  const size_t block = ExtentReader::kBlock;
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(block, block),
                                                           &std::free);
  if (memory == nullptr) return false;
  ssize_t got;
  do {
    got = pread(descriptor, memory.get(), block, 0);
  } while (got < 0 && errno == EINTR);
  // Other errors are the file's own and will be told when it is read.
  return got >= 0 || (errno != EINVAL && errno != EOPNOTSUPP);
}

}  // namespace

RawFiles::~RawFiles() {
  for (const int descriptor : descriptors_) close(descriptor);
}

std::string RawFiles::open(const std::vector<std::string>& paths, bool direct) {
  descriptors_.reserve(paths.size());
  std::vector<dev_t> tried;
  for (const std::string& path : paths) {
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (direct ? O_DIRECT : 0);
    const int descriptor = ::open(path.c_str(), flags);
    if (descriptor < 0) {
      const int why = errno;
      if (direct && (why == EINVAL || why == EOPNOTSUPP)) {
        return fmt::format("O_DIRECT is refused for {}: {}", path, std::strerror(why));
      }
      fail(ErrorKind::io, "{}: cannot open: {}", path, std::strerror(why));
    }
    descriptors_.push_back(descriptor);
    struct stat status {};
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
      fail(ErrorKind::io, "{}: cannot read: it is no regular file", path);
    }
    // The flag keeps open() from waiting for a pipe; some file systems would let reads fail for it.
    fcntl(descriptor, F_SETFL, flags & ~(O_CLOEXEC | O_NONBLOCK));
    if (!direct) {
      // Every piece is as long as it is wanted: reading ahead of it would fill memory for nothing.
      posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
    } else if (std::find(tried.begin(), tried.end(), status.st_dev) == tried.end()) {
      tried.push_back(status.st_dev);  // what one file may, all of its file system may
      if (!reads_a_block(descriptor)) {
        return fmt::format("O_DIRECT is refused for {}: {}", path, std::strerror(errno));
      }
    }
  }
  return "";
}

RawOpened open_raw_reader(const RawReaderOptions& options) {
  RawFiles files;
  const bool direct = options.mode != IoMode::threads_buffered;
  const std::string refused = files.open(options.paths, direct);
  if (!refused.empty()) return {nullptr, refused};
  if (options.mode == IoMode::uring_direct) {
    return make_uring_reader(std::move(files), options.depth);
  }
  return {make_thread_reader(std::move(files), options.depth, !direct), ""};
}

void forget_cached(const std::string& path, uint64_t offset, uint64_t bytes) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return;
  posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
  close(descriptor);
}

}  // namespace fathom
