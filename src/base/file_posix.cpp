#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/system.h"

namespace fathom {
namespace {

std::string reason() { return std::strerror(errno); }

// Why opening `path` for reading failed. Copies of a hub cache often have links that lead nowhere;
// that a file "does not exist" which a listing shows would help nobody.
std::string why_not_opened(const std::string& path) {
  const std::string why = reason();
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(path, error);
  if (error) return why;
  return "it is a link to " + target.string() + ": " + why;
}

struct DescriptorGuard {
  int descriptor;
  ~DescriptorGuard() { close(descriptor); }
};

}  // namespace

File::File(const std::string& path) : path_(path) {
  // Without O_NONBLOCK a named pipe would be waited for; regular files are read as ever.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot open: {}", path, why_not_opened(path));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    const std::string why = S_ISDIR(status.st_mode) ? "it is a folder"
                            : status.st_mode != 0   ? "it is a pipe, a socket or a device"
                                                    : reason();
    close(std::exchange(descriptor_, -1));
    fail(ErrorKind::io, "{}: cannot read: {}", path, why);
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      size_(other.size_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void File::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ErrorKind::io, "{}: cannot read {} bytes at offset {}: {}", path_, into.size(), offset,
           reason());
    }
    if (got == 0) {
      fail(ErrorKind::io, "{}: the file ends at offset {}, {} bytes before what was wanted", path_,
           offset, into.size());
    }
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void File::drop_cached(uint64_t offset, uint64_t bytes) const {
  // Advice: where it is not heeded nothing is lost.
  posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                POSIX_FADV_DONTNEED);
}

std::string read_text(const std::string& path, uint64_t limit) {
  const File file(path);
  if (file.size() > limit) {
    fail_input("{}: {} bytes is more than the {} expected at the most", path, file.size(), limit);
  }
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string read_stream(const std::string& path, uint64_t limit, const CancelToken* cancel) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EINTR && cancel != nullptr) cancel->throw_if_cancelled();
    fail(ErrorKind::io, "{}: cannot open: {}", path, why_not_opened(path));
  }
  const DescriptorGuard guard{descriptor};
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    const ssize_t got = read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) {
      if (cancel != nullptr) cancel->throw_if_cancelled();
      continue;
    }
    if (got < 0) {
      const std::string why = errno == EISDIR ? "it is a folder" : reason();
      fail(ErrorKind::io, "{}: cannot read: {}", path, why);
    }
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > limit) {
      fail_input("{}: more than the {} bytes expected at the most", path, limit);
    }
  }
}

void sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may not be read can still be written to
  const DescriptorGuard guard{descriptor};
  if (fsync(descriptor) != 0 && errno == EIO) {
    fail(ErrorKind::io, "{}: cannot flush its folder: {}", path, reason());
  }
}

OutputFile::OutputFile(const std::string& path) : path_(path) {
  struct stat status {};
  const bool exists = stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    // A device or a pipe (/dev/null) is written to: renaming would put a file in its place.
    descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot open: {}", path, reason());
    return;
  }
  // A link stays a link: the file it leads to is the one that is replaced.
  std::error_code unresolved;
  const std::filesystem::path target = std::filesystem::canonical(path, unresolved);
  if (exists && !unresolved) final_ = target.string();
  if (final_.empty()) final_ = path;
  temporary_ = system::temporary_name(final_);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot create: {}", path, reason());
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(ErrorKind::io, "{}: cannot write: {}", path_, reason());
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::skip(uint64_t bytes) {
  const off_t end = lseek(descriptor_, 0, SEEK_CUR);
  const off_t after = end + static_cast<off_t>(bytes);
  if (end < 0 || ftruncate(descriptor_, after) != 0 || lseek(descriptor_, after, SEEK_SET) < 0) {
    fail(ErrorKind::io, "{}: cannot make it {} bytes long: {}", path_,
         static_cast<uint64_t>(std::max<off_t>(end, 0)) + bytes, reason());
  }
}

uint64_t OutputFile::disk_bytes() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) {
    fail(ErrorKind::io, "{}: cannot ask for its size: {}", path_, reason());
  }
  return static_cast<uint64_t>(status.st_blocks) * 512;  // whatever the file system's own blocks
}

void OutputFile::commit() {
  if (temporary_.empty()) {  // devices and pipes have nothing to flush
    close(std::exchange(descriptor_, -1));
    return;
  }
  if (fsync(descriptor_) != 0) fail(ErrorKind::io, "{}: cannot flush: {}", path_, reason());
  if (rename(temporary_.c_str(), final_.c_str()) != 0) {
    fail(ErrorKind::io, "{}: cannot rename {} to it: {}", path_, temporary_, reason());
  }
  close(std::exchange(descriptor_, -1));
  sync_folder_of(final_);
}

}  // namespace fathom
