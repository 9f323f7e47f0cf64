#include <io.h>
#include <windows.h>

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/locked_file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

std::string reason() { return std::system_category().message(static_cast<int>(GetLastError())); }

HANDLE handle_of(int descriptor) { return reinterpret_cast<HANDLE>(_get_osfhandle(descriptor)); }

// Shared for renaming and removing, but for no second writer: that is the lock.
int open_locked(const fs::path& path, DWORD creation) {
  const HANDLE handle =
      CreateFileW(path.c_str(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE,
                  nullptr, creation, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return -1;
  return _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_RDWR | _O_BINARY);
}

OVERLAPPED place_of(uint64_t offset) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(offset);
  place.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return place;
}

std::string replacement_name(const std::string& target) { return target + ".new"; }

}  // namespace

LockedFile::LockedFile(const std::string& path) : path_(path) {
  std::error_code ignored;
  const fs::path target = fs::weakly_canonical(path, ignored);
  target_ = ignored || target.empty() ? path : target.string();
  descriptor_ = open_locked(target_, OPEN_ALWAYS);
  if (descriptor_ >= 0) return;
  if (GetLastError() == ERROR_SHARING_VIOLATION) {
    fail(ErrorKind::io, "{}: another program is using it", path_);
  }
  fail(ErrorKind::io, "{}: cannot open: {}", path_, reason());
}

LockedFile::~LockedFile() {
  if (replaced_ >= 0) discard_replacement();
  if (descriptor_ >= 0) _close(descriptor_);
}

void LockedFile::fail_io(const char* what, uint64_t offset) const {
  fail(ErrorKind::io, "{}: cannot {} at offset {}: {}", path_, what, offset, reason());
}

uint64_t LockedFile::size() const {
  LARGE_INTEGER size{};
  if (!GetFileSizeEx(handle_of(descriptor_), &size)) fail_io("find the end", 0);
  return static_cast<uint64_t>(size.QuadPart);
}

void LockedFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    OVERLAPPED place = place_of(offset);
    const auto wanted = static_cast<DWORD>(std::min<uint64_t>(into.size(), kMostAtOnce));
    DWORD got = 0;
    if (!ReadFile(handle_of(descriptor_), into.data(), wanted, &got, &place) &&
        GetLastError() != ERROR_HANDLE_EOF) {
      fail_io("read", offset);
    }
    if (got == 0) {
      fail(ErrorKind::io, "{}: the file ends at offset {}, {} bytes before what was wanted", path_,
           offset, into.size());
    }
    into = into.subspan(got);
    offset += got;
  }
}

void LockedFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    OVERLAPPED place = place_of(offset);
    const auto size = static_cast<DWORD>(std::min<uint64_t>(bytes.size(), kMostAtOnce));
    DWORD put = 0;
    if (!WriteFile(handle_of(descriptor_), bytes.data(), size, &put, &place)) {
      fail_io("write", offset);
    }
    bytes = bytes.subspan(put);
    offset += put;
  }
}

void LockedFile::truncate(uint64_t size) {
  if (_chsize_s(descriptor_, static_cast<int64_t>(size)) != 0) fail_io("cut the file", size);
}

void LockedFile::sync() {
  if (!FlushFileBuffers(handle_of(descriptor_))) {
    fail(ErrorKind::io, "{}: cannot flush: {}", path_, reason());
  }
}

void LockedFile::drop_cached(uint64_t, uint64_t) const {}  // there is no such advice

void LockedFile::begin_replacement() {
  const std::string name = replacement_name(target_);
  const int descriptor = open_locked(name, CREATE_ALWAYS);
  if (descriptor < 0) fail(ErrorKind::io, "{}: cannot create {}: {}", path_, name, reason());
  replaced_ = std::exchange(descriptor_, descriptor);
}

void LockedFile::commit_replacement() {
  const std::string name = replacement_name(target_);
  sync();
  // The old file must not be open under the name that the new one takes.
  _close(std::exchange(replaced_, -1));
  if (!MoveFileExW(fs::path(name).c_str(), fs::path(target_).c_str(),
                   MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
    fail(ErrorKind::io, "{}: cannot rename {} to it: {}", path_, name, reason());
  }
}

void LockedFile::discard_replacement() {
  _close(descriptor_);
  _wunlink(fs::path(replacement_name(target_)).c_str());
  descriptor_ = std::exchange(replaced_, -1);
}

}  // namespace fathom
