// Bytes in, whole characters out: what a stream of tokens may show so far.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

// Holds back a sequence that is not complete yet; bytes that can never become valid become U+FFFD,
// one per maximal ill-formed part, as web decoders do it; finish() turns an incomplete rest into
// one. The pieces, joined, are the same whatever the bytes' cuts.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();

 private:
  std::string pending_;
};

// The whole at once, by the same rules.
std::string repair_utf8(std::string_view bytes);
// Offset of the first ill-formed byte, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace fathom
