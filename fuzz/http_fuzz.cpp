// Requests from bytes: the first byte says into which pieces the rest is cut. Whatever way it is
// cut, the same comes out, and never more than the limits allow.
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

// What is known of a request: a refusal's status, or what was read.
struct Outcome {
  int refused = 0;
  bool done = false;
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
        waiting.erase(0, used);
      }
    }
  } catch (const HttpError& error) {
    require(error.status() >= 400 && error.status() < 600);
    outcome.refused = error.status();
    return outcome;
  }
  outcome.done = parser.done();
  if (!outcome.done) return outcome;
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
  require(parse(bytes, 1 + data[0] % 16) == whole);
  return 0;
}
