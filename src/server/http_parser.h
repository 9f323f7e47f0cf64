// From bytes to requests. Boost.Beast parses headers, and is met nowhere but in
// http_parser.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace fathom::server {

// Reads one request. Stricter than the standard asks for: whatever two readers might understand in
// two ways (a length given twice or beside a transfer encoding, folded lines, bare line ends, white
// space before a colon) is refused.
class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Takes what belongs to the request; returns how much that was. Throws HttpError.
  size_t feed(std::string_view bytes);
  bool started() const;  // there was a byte of it
  bool header_done() const;
  bool done() const;
  // Bytes that the body will have, where the header says so.
  std::optional<uint64_t> body_length() const;

  // After header_done(): without its body as long as it is not done().
  HttpRequest& request();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom::server
