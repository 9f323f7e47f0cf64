#include <dlfcn.h>

#include "base/error.h"
#include "base/shared_library.h"

namespace fathom {

SharedLibrary SharedLibrary::load(const std::string& path) {
  SharedLibrary library;
  library.path_ = path;
  library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle_ == nullptr) {
    const char* why = dlerror();
    fail(ErrorKind::io, "{}: cannot be loaded: {}", path, why != nullptr ? why : "no reason given");
  }
  return library;
}

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

std::string shared_library_name(const std::string& stem) {
#ifdef __APPLE__
  return "lib" + stem + ".dylib";
#else
  return "lib" + stem + ".so";
#endif
}

}  // namespace fathom
