// What parsers built on nlohmann's event interface share: where they are in the text, and errors
// that say so.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace fathom {

// Walks the text and leaves behind how far the parser has read, which the event interface does not
// tell its handler.
class JsonCursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonCursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  JsonCursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  JsonCursor operator++(int) {
    const JsonCursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const JsonCursor& other) const { return at_ == other.at_; }
  bool operator!=(const JsonCursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Throws Error(input) "what:line:column: problem" for the character before `offset`.
[[noreturn]] void fail_json(std::string_view text, size_t offset, std::string_view what,
                            std::string_view problem);

// The part of nlohmann's message that says what is wrong, made printable and short.
std::string json_syntax_problem(std::string_view message);

// Feeds all of `text` to `handler` (a nlohmann SAX handler whose parse_error ends in fail_json).
// `reached` is kept at the place after the last character read.
template <typename Json, typename Handler>
void sax_parse_json(std::string_view text, std::string_view what, const char** reached,
                    Handler* handler) {
  *reached = text.data();
  // nlohmann takes a zero byte for the end of its input; what follows would pass unread.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    fail_json(text, zero + 1, what, "a zero byte, which JSON does not allow");
  }
  Json::sax_parse(JsonCursor(text.data(), reached), JsonCursor(text.data() + text.size(), reached),
                  handler);
}

// A key or name as it may stand in a message: quoted, shortened, control bytes made visible.
std::string quoted_for_message(std::string_view name, size_t limit = 120);

}  // namespace fathom
