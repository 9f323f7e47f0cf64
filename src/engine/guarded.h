// Calls into functions that belong to the caller of the library.
#pragma once

#include <exception>
#include <optional>

#include "base/error.h"

namespace fathom {

// Calls `f`; what it throws becomes an Error.
template <typename F>
std::optional<Error> guarded(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::io, error.what());
  }
  return std::nullopt;
}

}  // namespace fathom
