#include "text/utf8_stream.h"

#include <cstdint>
#include <cstring>

#include "text/unicode.h"

namespace fathom {
namespace {

using unicode::Sequence;
using unicode::SequenceKind;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// First byte at or after `at` that is not ASCII.
size_t skip_ascii(std::string_view text, size_t at) {
  while (text.size() - at >= 8) {
    uint64_t eight;
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & 0x8080808080808080u) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

// Appends what is certain of `bytes`; returns where an incomplete sequence at the end begins.
size_t repair(std::string_view bytes, std::string& out) {
  size_t copied = 0;
  for (size_t at = 0; (at = skip_ascii(bytes, at)) < bytes.size();) {
    const Sequence sequence = unicode::sequence_at(bytes, at);
    if (sequence.kind != SequenceKind::valid) {
      out.append(bytes.substr(copied, at - copied));
      if (sequence.kind == SequenceKind::incomplete) return at;
      out.append(kReplacement);
      copied = at + sequence.length;
    }
    at += sequence.length;
  }
  out.append(bytes.substr(copied));
  return bytes.size();
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string out;
  if (pending_.empty()) {
    pending_ = bytes.substr(repair(bytes, out));
    return out;
  }
  pending_.append(bytes);
  pending_.erase(0, repair(pending_, out));
  return out;
}

std::string Utf8Stream::finish() {
  const bool incomplete = !pending_.empty();
  pending_.clear();
  return std::string(incomplete ? kReplacement : std::string_view{});
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (repair(bytes, out) != bytes.size()) out.append(kReplacement);
  return out;
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; (at = skip_ascii(text, at)) < text.size();) {
    const Sequence sequence = unicode::sequence_at(text, at);
    if (sequence.kind != SequenceKind::valid) return at;
    at += sequence.length;
  }
  return std::string_view::npos;
}

}  // namespace fathom
