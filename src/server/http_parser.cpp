#include "server/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>

#include "base/error.h"
#include "server/chunked_body.h"

namespace fathom::server {
namespace {

namespace http = boost::beast::http;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_number(std::string_view text) {
  constexpr size_t kMostDigits = 18;
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The first line: METHOD SP target SP HTTP/1.x
void check_request_line(std::string_view line, const HttpLimits& limits) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0) {
    throw HttpError(400, "the request line is not METHOD TARGET HTTP/1.1");
  }
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.size() > limits.target_bytes) {
    throw HttpError(414, fmt::format("the target has more than {} bytes", limits.target_bytes));
  }
  for (const char c : target) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) {
      throw HttpError(400, "the target contains a blank or a control character");
    }
  }
  const std::string_view version = line.substr(last + 1);
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return;
  throw HttpError(version.starts_with("HTTP/") ? 505 : 400,
                  "only HTTP/1.1 and HTTP/1.0 are spoken");
}

// The header as it stands on the wire, where it can still be seen what might be read in two ways.
void check_header(std::string_view header, const HttpLimits& limits) {
  size_t lines = 0;
  int lengths = 0;
  int encodings = 0;
  int hosts = 0;
  bool http_1_1 = true;
  for (size_t at = 0; at + 2 < header.size();) {
    const size_t end = header.find("\r\n", at);
    const std::string_view line = header.substr(at, end - at);
    at = end + 2;
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
      throw HttpError(400, "a line of the header has a bare line end or a zero byte in it");
    }
    if (lines++ == 0) {
      check_request_line(line, limits);
      http_1_1 = line.ends_with("HTTP/1.1");
      continue;
    }
    if (line.empty()) break;
    if (line[0] == ' ' || line[0] == '\t') throw HttpError(400, "a header line is folded");
    if (lines > limits.headers + 1) {
      throw HttpError(431, fmt::format("there are more than {} header lines", limits.headers));
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0 || line[colon - 1] == ' ' ||
        line[colon - 1] == '\t') {
      throw HttpError(400, "a header line is not NAME: VALUE");
    }
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (name == "host") ++hosts;
    if (name == "content-length") {
      ++lengths;
      if (!is_number(value)) throw HttpError(400, "Content-Length is not one number");
    }
    if (name == "transfer-encoding") {
      ++encodings;
      if (!http_1_1) throw HttpError(400, "HTTP/1.0 has no Transfer-Encoding");
      if (lower(value) != "chunked")
        throw HttpError(501, "only Transfer-Encoding: chunked is read");
    }
  }
  if (lengths > 1) throw HttpError(400, "Content-Length is given twice");
  if (encodings > 1) throw HttpError(400, "Transfer-Encoding is given twice");
  if (lengths > 0 && encodings > 0) {
    throw HttpError(400, "Content-Length and Transfer-Encoding are both given");
  }
  if (hosts > 1 || (hosts == 0 && http_1_1)) {
    throw HttpError(400, "exactly one Host header is needed");
  }
}

}  // namespace

struct HttpParser::Impl {
  explicit Impl(const HttpLimits& given) : limits(given), chunks(given.body_bytes) {
    parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
    parser.body_limit(limits.body_bytes);
  }

  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  void parse_header();
  void take_header();

  const HttpLimits& limits;
  http::request_parser<http::empty_body> parser;  // of the header alone
  std::string pending;                            // of the header
  ChunkedBody chunks;
  HttpRequest request;
  bool begun = false;  // whether an empty line stands in front is known
  bool header_done = false;
  bool done = false;
};

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
HttpParser::~HttpParser() = default;
bool HttpParser::started() const { return header_done() || !impl_->pending.empty(); }
bool HttpParser::header_done() const { return impl_->header_done; }
bool HttpParser::done() const { return impl_->done; }
HttpRequest& HttpParser::request() { return impl_->request; }

std::optional<uint64_t> HttpParser::body_length() const {
  const auto length = impl_->parser.content_length();
  return length ? std::optional<uint64_t>(*length) : std::nullopt;
}

// The header, whole.
void HttpParser::Impl::parse_header() {
  boost::beast::error_code error;
  parser.put(boost::asio::const_buffer(pending.data(), pending.size()), error);
  if (error == http::error::body_limit) {
    throw HttpError(413, fmt::format("the body has more than {} bytes", limits.body_bytes));
  }
  if (error && error != http::error::need_more) throw HttpError(400, error.message());
  if (!parser.is_header_done()) throw HttpError(400, "the header is not whole");
}

// Not by Beast: its parser ends the program at some malformed chunks.
size_t HttpParser::Impl::feed_body(std::string_view bytes) {
  if (parser.chunked()) {
    const size_t used = chunks.feed(bytes);
    done = chunks.done();
    if (done) request.body = std::move(chunks.body());
    return used;
  }
  const size_t left =
      static_cast<size_t>(parser.content_length().value_or(0)) - request.body.size();
  const size_t used = std::min(left, bytes.size());
  request.body.append(bytes.substr(0, used));
  done = used == left;
  return used;
}

size_t HttpParser::Impl::feed_header(std::string_view bytes) {
  const size_t had = pending.size();
  const size_t room = limits.header_bytes - std::min(limits.header_bytes, had);
  pending.append(bytes.substr(0, room + 1));
  // An empty line after the last body is forgiven, as the standard asks for.
  size_t forgiven = 0;
  if (!begun && pending.size() >= 2) {
    begun = true;
    if (pending.starts_with("\r\n")) forgiven = 2;
    pending.erase(0, forgiven);
  }
  const size_t end = pending.find("\r\n\r\n", had < 3 ? 0 : had - 3);
  if (end == std::string::npos) {
    if (pending.size() > limits.header_bytes) {
      throw HttpError(431, fmt::format("the header has more than {} bytes", limits.header_bytes));
    }
    return bytes.size();
  }
  pending.resize(end + 4);
  const size_t taken = forgiven + pending.size() - had;
  check_header(pending, limits);
  parse_header();
  pending.clear();
  take_header();
  return taken;
}

void HttpParser::Impl::take_header() {
  header_done = true;
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  std::string target(message.target());
  // The absolute form, which clients use towards proxies.
  if (const size_t scheme = target.find("://");
      scheme != std::string::npos && target.find('/') == scheme + 1) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  if (request.path.empty() || (request.path[0] != '/' && request.path != "*")) {
    throw HttpError(400, "the target does not begin with /");
  }
  request.http_1_0 = message.version() == 10;
  request.keep_alive = parser.keep_alive();
  for (const auto& field : message) {
    request.headers.emplace_back(
        lower(std::string_view(field.name_string().data(), field.name_string().size())),
        std::string(field.value()));
  }
  if (const std::string* expect = request.header("expect")) {
    if (lower(*expect) != "100-continue")
      throw HttpError(417, "Expect: only 100-continue is known");
    request.expects_continue = !request.http_1_0;
  }
  done = !parser.chunked() && parser.content_length().value_or(0) == 0;
}

size_t HttpParser::feed(std::string_view bytes) {
  if (impl_->done || bytes.empty()) return 0;
  return impl_->header_done ? impl_->feed_body(bytes) : impl_->feed_header(bytes);
}

}  // namespace fathom::server
