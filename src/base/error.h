// Throwing errors that a person will read: every message names the file, tensor, field or offset.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

#include "fathom/error.h"

namespace fathom {

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
