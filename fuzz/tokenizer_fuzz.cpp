// tokenizer.json and a text, separated by the first zero byte (JSON has none). A file that loads
// must encode every valid text or refuse it with an Error, and what it encodes must be the same the
// second time.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace {

using fathom::ControlTokens;
using fathom::Tokenizer;

// `special_from_text`: unknown bytes may become an unk token that is special.
void try_text(const Tokenizer& tokenizer, std::string_view text, bool special_from_text) {
  for (const auto control : {ControlTokens::parse, ControlTokens::as_text}) {
    std::vector<fathom::TokenId> ids;
    try {
      ids = tokenizer.encode(text, control);
    } catch (const fathom::Error&) {
      continue;
    }
    if (tokenizer.encode(text, control) != ids) std::abort();
    for (const fathom::TokenId id : ids) {
      if (id < 0 || id >= tokenizer.size()) std::abort();
      const fathom::AddedToken* added = tokenizer.added_token(id);
      if (!special_from_text && control == ControlTokens::as_text && added != nullptr &&
          added->special && tokenizer.bytes(id).size() > 1) {
        std::abort();
      }
    }
    const std::string back = tokenizer.decode(ids);
    if (fathom::find_invalid_utf8(back) != std::string::npos) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view json = input.substr(0, zero);
  const bool unk = json.find("unk") != std::string_view::npos || json.find('\\') != json.npos;
  try {
    const Tokenizer tokenizer = Tokenizer::parse(json, "tokenizer.json");
    if (zero != std::string_view::npos) try_text(tokenizer, input.substr(zero + 1), unk);
    try_text(tokenizer, "Hello  world 123\n\xE4\xB8\xAD\xE6\x96\x87 <s>cafe\xCC\x81</s>", unk);
  } catch (const fathom::Error&) {
  }
  return 0;
}
