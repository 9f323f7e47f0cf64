// A body in chunks, read strictly: what two readers might understand differently is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fathom::server {

class ChunkedBody {
 public:
  explicit ChunkedBody(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Takes what belongs to the body, its last empty line included; returns how much that was. Throws
  // HttpError. Extensions of chunks and trailing fields are read and left out.
  size_t feed(std::string_view bytes);
  bool done() const { return place_ == Place::done; }
  std::string& body() { return body_; }

 private:
  enum class Place { size, data, data_end, trailer, done };

  void take_line(std::string_view line);
  void take_size(std::string_view line);

  const size_t most_bytes_;
  Place place_ = Place::size;
  size_t left_ = 0;      // of the chunk
  std::string line_;     // so far
  size_t trailers_ = 0;  // bytes
  std::string body_;
};

}  // namespace fathom::server
