// What every call of the library throws.
#pragma once

#include <stdexcept>
#include <string>

namespace fathom {

enum class ErrorKind {
  usage,      // the command line or an API argument is wrong
  input,      // a file's or a request's content is wrong
  io,         // the operating system refused or a device failed
  cancelled,  // the caller asked to stop
};

// The message names the file, tensor, field or offset that it is about.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace fathom
