// Utf8Stream on any bytes, cut anywhere: the first byte seeds the cuts.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/utf8_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  uint32_t state = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = fathom::repair_utf8(bytes);
  if (fathom::find_invalid_utf8(whole) != std::string::npos) std::abort();
  const size_t invalid = fathom::find_invalid_utf8(bytes);
  if ((invalid == std::string::npos) != (whole == bytes)) std::abort();
  if (invalid != std::string::npos && bytes.substr(0, invalid) != whole.substr(0, invalid)) {
    std::abort();
  }
  fathom::Utf8Stream stream;
  std::string joined;
  for (size_t at = 0; at < bytes.size();) {
    state = state * 1664525 + 1013904223;
    const size_t length = (state >> 16) % 6;
    const std::string piece = stream.push(bytes.substr(at, length));
    if (fathom::find_invalid_utf8(piece) != std::string::npos) std::abort();
    joined += piece;
    at += length;
  }
  joined += stream.finish();
  if (joined != whole) std::abort();
  return 0;
}
