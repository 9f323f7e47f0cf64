// UTF-8 sequences and the few character properties that splitting needs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom::unicode {

enum class SequenceKind {
  valid,
  incomplete,  // the text ends inside a sequence that more bytes could complete
  ill_formed,  // `length` bytes are one maximal ill-formed part: one U+FFFD stands for them
};

struct Sequence {
  SequenceKind kind;
  uint32_t length;  // at least 1
  char32_t code;    // where valid
};

// The sequence that begins at text[at] (at < text.size()).
Sequence sequence_at(std::string_view text, size_t at);
// The character that begins at text[at] or ends before it; the text must be valid there.
char32_t character_at(std::string_view text, size_t at);
size_t previous_character(std::string_view text, size_t at);
inline size_t length_of_valid(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
void append_utf8(std::string& out, char32_t code);

// Unicode's White_Space property.
bool is_white_space(char32_t code);
// Letters, marks, decimal digits, connectors and joiners: what `\w` means in tokenizer files.
bool is_word(char32_t code);

enum class Form { nfc, nfd, nfkc, nfkd };
// `text` must be valid UTF-8.
std::string normalise(std::string_view text, Form form);
std::string lowercase(std::string_view text);

}  // namespace fathom::unicode
