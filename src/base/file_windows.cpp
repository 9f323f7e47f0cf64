// Handles stand behind the descriptors of the C library, so that the classes need not know them.
#include <fcntl.h>
#include <io.h>
#include <sys/stat.h>
#include <windows.h>
// After windows.h, which it needs.
#include <winioctl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/system.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

std::string reason() { return std::system_category().message(static_cast<int>(GetLastError())); }
std::string c_reason() { return std::generic_category().message(errno); }

HANDLE handle_of(int descriptor) { return reinterpret_cast<HANDLE>(_get_osfhandle(descriptor)); }

// Others may go on renaming and removing what is open here, as elsewhere.
int open_shared(const fs::path& path) {
  const HANDLE handle = CreateFileW(path.c_str(), GENERIC_READ,
                                    FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                    OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  return _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_RDONLY | _O_BINARY);
}

struct DescriptorGuard {
  int descriptor;
  ~DescriptorGuard() { _close(descriptor); }
};

}  // namespace

File::File(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    fail(ErrorKind::io, "{}: cannot read: it is a folder", path);
  }
  descriptor_ = open_shared(path);
  if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot open: {}", path, reason());
  if (GetFileType(handle_of(descriptor_)) != FILE_TYPE_DISK) {
    _close(std::exchange(descriptor_, -1));
    fail(ErrorKind::io, "{}: cannot read: it is a pipe, a socket or a device", path);
  }
  LARGE_INTEGER size{};
  GetFileSizeEx(handle_of(descriptor_), &size);
  size_ = static_cast<uint64_t>(size.QuadPart);
}

File::~File() {
  if (descriptor_ >= 0) _close(descriptor_);
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
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(offset);
    place.OffsetHigh = static_cast<DWORD>(offset >> 32);
    const auto wanted = static_cast<DWORD>(std::min<uint64_t>(into.size(), kMostAtOnce));
    DWORD got = 0;
    const bool read = ReadFile(handle_of(descriptor_), into.data(), wanted, &got, &place) != 0;
    if (!read && GetLastError() != ERROR_HANDLE_EOF) {
      fail(ErrorKind::io, "{}: cannot read {} bytes at offset {}: {}", path_, into.size(), offset,
           reason());
    }
    if (got == 0) {
      fail(ErrorKind::io, "{}: the file ends at offset {}, {} bytes before what was wanted", path_,
           offset, into.size());
    }
    into = into.subspan(got);
    offset += got;
  }
}

void File::drop_cached(uint64_t, uint64_t) const {}  // there is no such advice

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
  const int descriptor = open_shared(path);
  if (descriptor < 0) fail(ErrorKind::io, "{}: cannot open: {}", path, reason());
  const DescriptorGuard guard{descriptor};
  std::string text;
  std::array<char, 65536> piece;
  while (true) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const int got = _read(descriptor, piece.data(), static_cast<unsigned>(piece.size()));
    if (got < 0) fail(ErrorKind::io, "{}: cannot read: {}", path, c_reason());
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (text.size() > limit) {
      fail_input("{}: more than the {} bytes expected at the most", path, limit);
    }
  }
}

void sync_folder_of(const std::string&) {}  // names are journalled by the file system

OutputFile::OutputFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (const fs::path target = fs::canonical(path, error); !error) final_ = target.string();
  if (final_.empty()) final_ = path;
  temporary_ = system::temporary_name(final_);
  descriptor_ = _wopen(fs::path(temporary_).c_str(), _O_WRONLY | _O_CREAT | _O_EXCL | _O_BINARY,
                       _S_IREAD | _S_IWRITE);
  if (descriptor_ < 0) fail(ErrorKind::io, "{}: cannot create: {}", path, c_reason());
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  _close(descriptor_);
  _wunlink(fs::path(temporary_).c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto size = static_cast<unsigned>(std::min<uint64_t>(bytes.size(), kMostAtOnce));
    const int put = _write(descriptor_, bytes.data(), size);
    if (put < 0) fail(ErrorKind::io, "{}: cannot write: {}", path_, c_reason());
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void OutputFile::skip(uint64_t bytes) {
  DWORD returned = 0;
  DeviceIoControl(handle_of(descriptor_), FSCTL_SET_SPARSE, nullptr, 0, nullptr, 0, &returned,
                  nullptr);  // refused, the zeros take room
  const int64_t after = _telli64(descriptor_) + static_cast<int64_t>(bytes);
  if (_chsize_s(descriptor_, after) != 0 || _lseeki64(descriptor_, after, SEEK_SET) < 0) {
    fail(ErrorKind::io, "{}: cannot make it {} bytes long: {}", path_, after, c_reason());
  }
}

uint64_t OutputFile::disk_bytes() const {
  FILE_STANDARD_INFO info{};
  if (!GetFileInformationByHandleEx(handle_of(descriptor_), FileStandardInfo, &info, sizeof info)) {
    fail(ErrorKind::io, "{}: cannot ask for its size: {}", path_, reason());
  }
  return static_cast<uint64_t>(info.AllocationSize.QuadPart);
}

void OutputFile::commit() {
  if (_commit(descriptor_) != 0) fail(ErrorKind::io, "{}: cannot flush: {}", path_, c_reason());
  _close(std::exchange(descriptor_, -1));
  if (!MoveFileExW(fs::path(temporary_).c_str(), fs::path(final_).c_str(),
                   MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
    const std::string why = reason();
    _wunlink(fs::path(temporary_).c_str());
    fail(ErrorKind::io, "{}: cannot rename {} to it: {}", path_, temporary_, why);
  }
}

}  // namespace fathom
