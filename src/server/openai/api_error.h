// What the API answers when something is wrong: {"error":{"message","type","param","code"}}.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

namespace fathom::server {

class ApiError : public Error {
 public:
  struct Place {
    std::optional<std::string> param = {};  // the field
    std::optional<std::string> code = {};   // for programs
  };
  ApiError(int status, const std::string& message, Place place);

  int status() const { return status_; }
  const std::optional<std::string>& param() const { return place_.param; }
  const std::optional<std::string>& code() const { return place_.code; }
  // {"error":{...}}
  std::string body() const;

 private:
  int status_;
  Place place_;
};

// An error of the library: what was asked wrongly is 400 and names its field where the message
// begins with one; the rest is 500.
ApiError api_error_of(const Error& error);

// 400, "name: text".
template <typename... Args>
[[noreturn]] void refuse_field(const std::string& name, fmt::format_string<Args...> text,
                               Args&&... args) {
  throw ApiError(400, name + ": " + fmt::format(text, std::forward<Args>(args)...), {name, {}});
}

}  // namespace fathom::server
