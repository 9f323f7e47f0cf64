#include "server/chunked_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "server/http_message.h"

namespace fathom::server {
namespace {

// A chunk's first line, with extensions that nobody needs; all trailing fields together.
constexpr size_t kMostLine = 4096;
constexpr size_t kMostTrailers = 4096;

}  // namespace

size_t ChunkedBody::feed(std::string_view bytes) {
  size_t used = 0;
  while (used < bytes.size() && !done()) {
    const std::string_view rest = bytes.substr(used);
    if (place_ == Place::data) {
      const size_t taken = std::min(left_, rest.size());
      body_.append(rest.substr(0, taken));
      used += taken;
      left_ -= taken;
      if (left_ == 0) place_ = Place::data_end;
      continue;
    }
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    line_.append(rest.substr(0, end));
    used += end;
    if (line_.size() > kMostLine) throw HttpError(400, "a line of a chunked body is too long");
    if (!line_.ends_with('\n')) continue;
    if (!line_.ends_with("\r\n")) throw HttpError(400, "a chunked body has a bare line end");
    take_line(std::string_view(line_).substr(0, line_.size() - 2));
    line_.clear();
  }
  return used;
}

void ChunkedBody::take_line(std::string_view line) {
  if (line.find_first_of(std::string_view("\r\0", 2)) != std::string_view::npos) {
    throw HttpError(400, "a line of a chunked body has a bare line end or a zero byte in it");
  }
  switch (place_) {
    case Place::size:
      take_size(line);
      break;
    case Place::data_end:
      if (!line.empty()) throw HttpError(400, "a chunk is longer than it says");
      place_ = Place::size;
      break;
    case Place::trailer:
      if (line.empty()) {
        place_ = Place::done;
        break;
      }
      trailers_ += line.size();
      if (trailers_ > kMostTrailers) throw HttpError(431, "the trailing fields are too long");
      if (line[0] == ' ' || line[0] == '\t' || line.find(':') == std::string_view::npos) {
        throw HttpError(400, "a trailing field is not NAME: VALUE");
      }
      break;
    default:
      break;
  }
}

void ChunkedBody::take_size(std::string_view line) {
  const std::string_view digits = line.substr(0, line.find(';'));
  size_t size = 0;
  const auto [end, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  const bool whole = !digits.empty() && end == digits.data() + digits.size();
  if (whole && (problem == std::errc::result_out_of_range ||
                (problem == std::errc() && size > most_bytes_ - body_.size()))) {
    throw HttpError(413, fmt::format("the body has more than {} bytes", most_bytes_));
  }
  if (!whole || problem != std::errc()) throw HttpError(400, "a chunk's size is not hexadecimal");
  left_ = size;
  place_ = size == 0 ? Place::trailer : Place::data;
}

}  // namespace fathom::server
