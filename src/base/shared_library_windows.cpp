#include <windows.h>

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/shared_library.h"

namespace fathom {

SharedLibrary SharedLibrary::load(const std::string& path) {
  SharedLibrary library;
  library.path_ = path;
  const std::filesystem::path file = path;
  // Of a file with its folder, what it needs is looked for beside it.
  const DWORD flags =
      file.is_absolute() ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS : 0;
  library.handle_ = LoadLibraryExW(file.c_str(), nullptr, flags);
  if (library.handle_ == nullptr) {
    const auto code = static_cast<int>(GetLastError());
    fail(ErrorKind::io, "{}: cannot be loaded: {}", path, std::system_category().message(code));
  }
  return library;
}

void* SharedLibrary::symbol(const char* name) const {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name));
}

std::string shared_library_name(const std::string& stem) { return stem + ".dll"; }

}  // namespace fathom
