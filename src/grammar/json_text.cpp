#include "grammar/json_text.h"

#include <algorithm>
#include <array>

namespace fathom::grammar {
namespace {

constexpr uint32_t kLastCharacter = 0x10FFFF;
constexpr int64_t kWidestIndentation = 24;

// The bytes of one code point; `size` of them.
std::array<uint8_t, 4> encode(uint32_t c, int size) {
  std::array<uint8_t, 4> bytes{};
  for (int i = size - 1; i > 0; --i) {
    bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(0x80 | (c & 0x3F));
    c >>= 6;
  }
  constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  bytes[0] = static_cast<uint8_t>(c | (size == 1 ? 0 : kLead[size]));
  return bytes;
}

// Ranges whose characters differ in their last bytes only in full blocks become one row of edges.
void add_block(Nfa& nfa, Nfa::Fragment whole, uint32_t low, uint32_t high, int size) {
  for (int tail = 1; tail < size; ++tail) {
    const uint32_t block = (uint32_t{1} << (6 * tail)) - 1;
    if ((low & ~block) == (high & ~block)) continue;
    if ((low & block) != 0) {
      add_block(nfa, whole, low, low | block, size);
      add_block(nfa, whole, (low | block) + 1, high, size);
      return;
    }
    if ((high & block) != block) {
      add_block(nfa, whole, low, (high & ~block) - 1, size);
      add_block(nfa, whole, high & ~block, high, size);
      return;
    }
  }
  const auto first = encode(low, size);
  const auto last = encode(high, size);
  int32_t at = whole.begin;
  for (int i = 0; i < size; ++i) {
    const int32_t next = i + 1 == size ? whole.end : nfa.add_state();
    nfa.add_edge(at, first[static_cast<size_t>(i)], last[static_cast<size_t>(i)], next);
    at = next;
  }
}

Nfa::Fragment hexadecimal(Nfa& nfa, char low, char high) {
  return nfa.symbol(static_cast<uint8_t>(low), static_cast<uint8_t>(high));
}

Nfa::Fragment any_hexadecimal(Nfa& nfa) {
  return nfa.either(
      {hexadecimal(nfa, '0', '9'), hexadecimal(nfa, 'a', 'f'), hexadecimal(nfa, 'A', 'F')});
}

Nfa::Fragment one_of(Nfa& nfa, std::string_view bytes) {
  std::vector<Nfa::Fragment> parts;
  for (const char byte : bytes) parts.push_back(nfa.symbol(static_cast<uint8_t>(byte)));
  return nfa.either(parts);
}

// \uXXXX of one that is no surrogate, or of two that belong together.
Nfa::Fragment escaped_code_point(Nfa& nfa) {
  const auto hex = [&nfa] { return any_hexadecimal(nfa); };
  const Nfa::Fragment plain = nfa.sequence(
      {nfa.either({hexadecimal(nfa, '0', '9'), one_of(nfa, "abcefABCEF")}), hex(), hex(), hex()});
  const Nfa::Fragment low_d =
      nfa.sequence({one_of(nfa, "dD"), hexadecimal(nfa, '0', '7'), hex(), hex()});
  const Nfa::Fragment pair =
      nfa.sequence({one_of(nfa, "dD"), one_of(nfa, "89abAB"), hex(), hex(), nfa.literal("\\u"),
                    one_of(nfa, "dD"), one_of(nfa, "cdefCDEF"), hex(), hex()});
  return nfa.sequence({nfa.literal("\\u"), nfa.either({plain, low_d, pair})});
}

std::string spelling(uint32_t c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return std::string("\\u00") + kHex[c >> 4] + kHex[c & 15];
  }
}

}  // namespace

Nfa::Fragment utf8_characters(Nfa& nfa, uint32_t low, uint32_t high) {
  constexpr uint32_t kFirst[] = {0, 0x80, 0x800, 0xE000, 0x10000};
  constexpr uint32_t kLast[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, kLastCharacter};
  constexpr int kSize[] = {1, 2, 3, 3, 4};
  const Nfa::Fragment whole{nfa.add_state(), nfa.add_state()};
  for (size_t i = 0; i < std::size(kSize); ++i) {
    const uint32_t from = std::max(low, kFirst[i]);
    const uint32_t to = std::min(high, kLast[i]);
    if (from <= to) add_block(nfa, whole, from, to, kSize[i]);
  }
  return whole;
}

Nfa::Fragment string_characters(Nfa& nfa, uint32_t low, uint32_t high) {
  std::vector<Nfa::Fragment> parts;
  const auto plain = [&](uint32_t from, uint32_t to) {
    from = std::max(from, low);
    to = std::min(to, high);
    if (from <= to) parts.push_back(utf8_characters(nfa, from, to));
  };
  const auto escaped = [&](uint32_t c) {
    if (low <= c && c <= high) parts.push_back(nfa.literal(spelling(c)));
  };
  for (uint32_t c = 0; c < 0x20; ++c) escaped(c);
  plain(0x20, '"' - 1);
  escaped('"');
  plain('"' + 1, '\\' - 1);
  escaped('\\');
  plain('\\' + 1, kLastCharacter);
  return nfa.either(parts);
}

Nfa::Fragment any_string_character(Nfa& nfa) {
  const Nfa::Fragment escape = nfa.sequence({nfa.symbol('\\'), one_of(nfa, "\"\\/bfnrt")});
  return nfa.either({utf8_characters(nfa, 0x20, '"' - 1), utf8_characters(nfa, '"' + 1, '\\' - 1),
                     utf8_characters(nfa, '\\' + 1, kLastCharacter), escape,
                     escaped_code_point(nfa)});
}

Nfa::Fragment string_of_length(Nfa& nfa, int64_t least, int64_t most) {
  const auto make = [&nfa] { return any_string_character(nfa); };
  return nfa.sequence({nfa.symbol('"'), nfa.repeat(make, least, most), nfa.symbol('"')});
}

Dfa canonical_string() {
  Nfa nfa;
  const auto make = [&nfa] { return string_characters(nfa, 0, kLastCharacter); };
  return nfa.determinise(
      nfa.sequence({nfa.symbol('"'), nfa.repeat(make, 0, kUnlimited), nfa.symbol('"')}));
}

Nfa::Fragment blanks(Nfa& nfa) {
  const auto space = [&nfa] { return nfa.symbol(' '); };
  return nfa.either({nfa.empty(), nfa.symbol(' '),
                     nfa.sequence({nfa.symbol('\n'), nfa.repeat(space, 0, kWidestIndentation)})});
}

}  // namespace fathom::grammar
