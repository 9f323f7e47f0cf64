// Requests from bytes: the first byte says into which pieces the rest is cut. However it is cut,
// the same request comes out and ends at the same place, or it is refused; and never is more taken
// than the limits allow.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/http_parser.h"

namespace {

using fathom::server::HttpError;
using fathom::server::HttpLimits;
using fathom::server::HttpParser;

void require(bool condition) {
  if (!condition) std::abort();
}

HttpLimits limits() {
  HttpLimits limits;
  limits.header_bytes = 512;
  limits.target_bytes = 64;
  limits.headers = 8;
  limits.body_bytes = 128;
  return limits;
}

// What was read; nothing where it was refused or waits for more.
struct Outcome {
  bool done = false;
  size_t used = 0;  // bytes
  std::string path;
  std::string body;
  bool operator==(const Outcome&) const = default;
};

Outcome parse(std::string_view bytes, size_t step) {
  static const HttpLimits given = limits();
  HttpParser parser(given);
  Outcome outcome;
  std::string waiting;
  try {
    for (size_t at = 0; at < bytes.size() && !parser.done(); at += step) {
      waiting += bytes.substr(at, step);
      while (!waiting.empty() && !parser.done()) {
        const size_t used = parser.feed(waiting);
        require(used <= waiting.size());
        if (used == 0) break;
        outcome.used += used;
        waiting.erase(0, used);
      }
    }
  } catch (const HttpError& error) {
    require(error.status() >= 400 && error.status() < 600);
    return {};
  }
  if (!parser.done()) return {};
  outcome.done = true;
  outcome.path = parser.request().path;
  outcome.body = parser.request().body;
  require(outcome.body.size() <= given.body_bytes);
  require(parser.request().headers.size() <= given.headers);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = parse(bytes, bytes.size() + 1);
  const Outcome pieces = parse(bytes, 1 + data[0] % 16);
  require(pieces == whole);
  return 0;
}
