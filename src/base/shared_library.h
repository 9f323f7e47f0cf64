// Libraries found while the program runs.
#pragma once

#include <string>

namespace fathom {

// A loaded library. It stays loaded until the program ends: what comes out of it (threads, static
// objects) would not survive its unloading.
class SharedLibrary {
 public:
  SharedLibrary() = default;
  // A file, or a name without a folder, which the system looks for in its own places. Error(io)
  // with the system's reason.
  static SharedLibrary load(const std::string& path);

  const std::string& path() const { return path_; }
  // nullptr where it has no such symbol.
  void* symbol(const char* name) const;

 private:
  std::string path_;
  void* handle_ = nullptr;
};

// "libonnxruntime.so", "onnxruntime.dll", "libonnxruntime.dylib" for "onnxruntime".
std::string shared_library_name(const std::string& stem);

}  // namespace fathom
