// ONNX Runtime's C interface, reached through the one symbol that its library exports.
#pragma once

#include <onnxruntime_c_api.h>

#include <string>

#include "base/error.h"

namespace fathom::ort {

// The table of functions of the loaded version, which may be older than the headers: a function
// that came with a later version may only be called where `version` has it.
struct Api {
  const OrtApi* table = nullptr;
  int version = 0;  // 22 of "1.22.0"
};

// Versions of ONNX Runtime that brought what is used where it is there.
inline constexpr int kOldest = 17;
inline constexpr int kPluginProviders = 22;
inline constexpr int kGraphAssignment = 24;

// Error(input) "`what`: the runtime's message" where the call has failed.
void check(const Api& api, OrtStatus* status, const std::string& what);

// File names in the form that the interface takes.
std::basic_string<ORTCHAR_T> file_name(const std::string& path);

// Deletes what the interface has made.
template <typename T>
class Owned {
 public:
  using Release = void(ORT_API_CALL*)(T*);
  explicit Owned(Release release) : release_(release) {}
  Owned(Owned&& other) noexcept
      : release_(other.release_), object_(std::exchange(other.object_, nullptr)) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { reset(); }

  T* get() const { return object_; }
  T** out() {
    reset();
    return &object_;
  }
  void reset() {
    if (object_ != nullptr) release_(std::exchange(object_, nullptr));
  }

 private:
  Release release_;
  T* object_ = nullptr;
};

}  // namespace fathom::ort
