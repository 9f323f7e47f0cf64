// A request and the limits within which one is read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::server {

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // what follows '?'
  bool http_1_0 = false;
  bool keep_alive = true;
  bool expects_continue = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // nullptr where there is none.
  const std::string* header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return &value;
    }
    return nullptr;
  }
};

struct HttpLimits {
  size_t header_bytes = 32 * 1024;
  size_t headers = 100;
  size_t target_bytes = 8 * 1024;
  size_t body_bytes = 8 << 20;
  size_t large_body_bytes = 64 << 10;  // bodies above this share `bodies_bytes`
  size_t bodies_bytes = 32 << 20;
  std::chrono::milliseconds idle{75'000};    // between requests
  std::chrono::milliseconds header{10'000};  // from its first byte to its last
  std::chrono::milliseconds body{60'000};
  std::chrono::milliseconds write{30'000};  // a reader who takes nothing for so long is cut off
  std::chrono::milliseconds keep_alive{10'000};  // between comments in a stream
  size_t waiting_bytes = 4 << 20;                // of an answer that its reader has not taken
};

// What is wrong with a request's bytes; the connection cannot go on after it.
class HttpError : public std::runtime_error {
 public:
  HttpError(int status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

const char* status_text(int status);

}  // namespace fathom::server
