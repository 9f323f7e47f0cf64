// Errors that a person will read. Every message names the file, tensor, field or offset it is about.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace fathom {

enum class ErrorKind {
  usage,      // the command line or an API argument is wrong
  input,      // a file's or a request's content is wrong
  io,         // the operating system refused or a device failed
  cancelled,  // the caller asked to stop
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::input, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::usage, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace fathom
