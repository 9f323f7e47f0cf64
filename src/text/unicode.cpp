#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <new>

#include "base/error.h"

namespace fathom::unicode {
namespace {

const utf8proc_uint8_t* as_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

void append_mapped(std::string& out, std::string_view text, int options) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const auto length = utf8proc_map(as_bytes(text), static_cast<utf8proc_ssize_t>(text.size()),
                                   &mapped, static_cast<utf8proc_option_t>(options));
  if (length < 0) {
    if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    fail_input("text of {} bytes cannot be normalised: {}", text.size(), utf8proc_errmsg(length));
  }
  out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
  std::free(mapped);
}

// True for characters that composing leaves alone and that never join the character before them.
bool starts_composed(char32_t code) {
  if (code < 0x300) return true;
  if (code >= 0x1100 && code < 0x1200) return false;  // Hangul letters compose by arithmetic
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
  const bool joins_previous = property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
  return property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX &&
         !joins_previous;
}

// Only the stretches around characters that are not already composed go through the library; each
// begins at the character before, which they may join.
std::string compose(std::string_view text) {
  constexpr int kOptions = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  std::string out;
  size_t copied = 0;
  size_t previous = 0;
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0xCC || starts_composed(character_at(text, at))) {
      previous = at;
      at += length_of_valid(text[at]);
      continue;
    }
    size_t end = at;
    while (end < text.size() && !starts_composed(character_at(text, end))) {
      end += length_of_valid(text[end]);
    }
    out.append(text.substr(copied, previous - copied));
    append_mapped(out, text.substr(previous, end - previous), kOptions);
    copied = previous = at = end;
  }
  if (copied == 0) return std::string(text);
  out.append(text.substr(copied));
  return out;
}

}  // namespace

Sequence sequence_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const size_t left = text.size() - at;
  const uint8_t first = byte(0);
  if (first < 0x80) return {SequenceKind::valid, 1, first};
  // The second byte's range depends on the first: no overlong forms, no surrogates, nothing beyond
  // U+10FFFF. All later bytes are 80..BF.
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  uint32_t length = 0;
  char32_t code = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    code = first & 0x1F;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    code = first & 0x0F;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    code = first & 0x07;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {SequenceKind::ill_formed, 1, 0};
  }
  for (uint32_t i = 1; i < length; ++i) {
    if (i == left) return {SequenceKind::incomplete, i, 0};
    if (byte(i) < low || byte(i) > high) return {SequenceKind::ill_formed, i, 0};
    code = (code << 6) | (byte(i) & 0x3F);
    low = 0x80;
    high = 0xBF;
  }
  return {SequenceKind::valid, length, code};
}

char32_t character_at(std::string_view text, size_t at) { return sequence_at(text, at).code; }

size_t previous_character(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append_utf8(std::string& out, char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_word(char32_t code) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // The joiners, and the circled, parenthesised and squared letters that count as alphabetic.
      return code == 0x200C || code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
             (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
             (code >= 0x1F170 && code <= 0x1F189);
  }
}

std::string normalise(std::string_view text, Form form) {
  if (form == Form::nfc) return compose(text);
  int options = UTF8PROC_STABLE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  options |= form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  std::string out;
  append_mapped(out, text, options);
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); at += length_of_valid(text[at])) {
    const char32_t code = character_at(text, at);
    if (code == 0x130) {
      out += "i\xCC\x87";  // the one character whose lower case is two
    } else {
      append_utf8(out,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    }
  }
  return out;
}

}  // namespace fathom::unicode
