#include "text/jinja_lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "text/jinja_text.h"
#include "text/unicode.h"

namespace fathom::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Line breaks of all systems become "\n"; one at the very end is dropped, as files have it.
std::string with_plain_line_breaks(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_line_breaks(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw SourceError{line_, message}; }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void advance(size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count),
                                         '\n'));
    at_ += count;
  }

  // Where the next tag opens, or the end.
  size_t find_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{') continue;
      if (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#') return i;
    }
    return source_.size();
  }

  // The sign just inside a tag: '-', '+' or 0.
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void add_data(size_t end, char sign, bool is_variable) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = trim_end(text);
    } else if (sign != '+' && !is_variable) {
      const size_t line_begin = text.rfind('\n') + 1;  // 0 where there is none
      if ((line_begin > 0 || at_line_start_) &&
          text.find_first_not_of(" \t\v\f", line_begin) == text.npos) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) add(TokenKind::data, std::string(text));
    advance(end - at_);
  }

  void read_data() {
    const size_t tag = find_tag();
    if (tag == source_.size()) {
      add(TokenKind::data, std::string(rest()));
      advance(tag - at_);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    add_data(tag, sign, kind == '{');
    if (kind == '#') {
      read_comment();
    } else if (kind == '%' && read_raw()) {
      return;
    } else {
      add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
      advance(sign == '\0' ? 2 : 3);
      read_expression(kind == '{' ? '}' : '%');
    }
  }

  // After a tag: "-" eats all white space, a block or comment its line break unless "+" says no.
  void end_tag(char sign, bool is_variable) {
    const size_t before = at_;
    if (sign == '-') {
      advance(leading_space(rest()));
    } else if (!is_variable && sign != '+' && rest().starts_with('\n')) {
      advance(1);
    }
    at_line_start_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void read_comment() {
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) fail("a comment is not closed");
    const char sign = end > at_ + 2 ? sign_at(end - 1) : '\0';
    advance(end + 2 - at_);
    end_tag(sign, false);
  }

  // {% raw %} ... {% endraw %}; false where the tag is another one.
  bool read_raw() {
    size_t end = 0;
    char close_sign = '\0';
    if (!match_block_tag(at_, "raw", end, close_sign)) return false;
    advance(end - at_);
    end_tag(close_sign == '-' ? '-' : '+', false);  // trim_blocks does not reach here
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{' || source_[i + 1] != '%') continue;
      if (!match_block_tag(i, "endraw", end, close_sign)) continue;
      add_data(i, sign_at(i + 2), false);
      advance(end - at_);
      end_tag(close_sign, false);
      return true;
    }
    fail("{% raw %} is not closed");
  }

  bool match_block_tag(size_t at, std::string_view word, size_t& end, char& close_sign) const {
    size_t i = at + 2;
    if (sign_at(i) != '\0') ++i;
    i += leading_space(std::string_view(source_).substr(i));
    if (source_.compare(i, word.size(), word) != 0) return false;
    i += word.size();
    i += leading_space(std::string_view(source_).substr(i));
    close_sign = sign_at(i);
    if (close_sign != '\0') ++i;
    end = i + 2;
    return source_.compare(i, 2, "%}") == 0;
  }

  void read_expression(char closer) {
    std::string open;  // brackets: inside them "}}" closes dicts, not the tag
    const int began = line_;
    for (;;) {
      advance(leading_space(rest()));
      if (at_ >= source_.size()) {
        throw SourceError{began, closer == '}' ? "{{ is not closed" : "{% is not closed"};
      }
      if (open.empty() && close_tag(closer)) return;
      read_token(open);
    }
  }

  bool close_tag(char closer) {
    const char sign = sign_at(at_);
    const size_t at = at_ + (sign == '\0' ? 0 : 1);
    if (sign == '+' && closer == '}') return false;  // only blocks know "+" here
    if (at + 1 >= source_.size() || source_[at] != closer || source_[at + 1] != '}') return false;
    add(closer == '}' ? TokenKind::variable_end : TokenKind::block_end, "");
    advance(at + 2 - at_);
    end_tag(sign, closer == '}');
    return true;
  }

  void read_token(std::string& open) {
    const char c = source_[at_];
    if (begins_name(c)) return read_name();
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string();
    static constexpr std::array<std::string_view, 26> kOperators{
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "(",
        ")",  "[",  "]",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (std::string_view op : kOperators) {
      if (!rest().starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") open += c;
      if (op == ")" || op == "]" || op == "}") {
        const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
        if (open.empty() || open.back() != wanted) fail(fmt::format("unexpected '{}'", c));
        open.pop_back();
      }
      add(TokenKind::op, std::string(op));
      advance(op.size());
      return;
    }
    fail(fmt::format("unexpected character '{}'", c));
  }

  void read_name() {
    size_t end = at_;
    while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
    add(TokenKind::name, source_.substr(at_, end - at_));
    advance(end - at_);
  }

  void read_number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    bool floating = false;
    if (source_[at_] == '0' && end + 1 < source_.size() &&
        std::string_view("xXoObB").find(source_[end + 1]) != std::string_view::npos) {
      end += 2;
      while (end < source_.size() && (hex_value(source_[end]) >= 0 || source_[end] == '_')) ++end;
    } else {
      digits();
      if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        floating = true;
        ++end;
        digits();
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t exponent = end + 1 + (sign_at(end + 1) == '\0' ? 0 : 1);
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          floating = true;
          end = exponent;
          digits();
        }
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(floating ? TokenKind::floating : TokenKind::integer, text);
    advance(end - at_);
  }

  void read_string() {
    const char quote = source_[at_];
    std::string value;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\' && i + 1 < source_.size()) {
        i = read_escape(i + 1, value);
      } else {
        value += source_[i++];
      }
    }
    if (i >= source_.size()) fail("a string is not closed");
    add(TokenKind::string, value);
    advance(i + 1 - at_);
  }

  // The escape after the backslash at `at` - 1; returns where reading goes on.
  size_t read_escape(size_t at, std::string& value) {
    static constexpr std::string_view kNames = "ntrabfv\\'\"";
    static constexpr std::string_view kValues = "\n\t\r\a\b\f\v\\'\"";
    const char c = source_[at];
    if (const size_t simple = kNames.find(c); simple != kNames.npos) {
      value += kValues[simple];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t i = at;
      for (; i < at + 3 && i < source_.size() && source_[i] >= '0' && source_[i] <= '7'; ++i) {
        code = code * 8 + static_cast<uint32_t>(source_[i] - '0');
      }
      unicode::append_utf8(value, code);
      return i;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {  // not an escape: the backslash is meant
      value += '\\';
      value += c;
      return at + 1;
    }
    uint32_t code = read_hex(at + 1, digits);
    size_t next = at + 1 + digits;
    const bool high = code >= 0xD800 && code < 0xDC00;
    if (high && source_.compare(next, 2, "\\u") == 0) {  // a surrogate pair is one character
      const uint32_t low = read_hex(next + 2, 4);
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        next += 6;
      }
    }
    if (code > 0x10FFFF) fail("an escape names no character");
    unicode::append_utf8(value, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return next;
  }

  uint32_t read_hex(size_t at, size_t digits) const {
    uint32_t code = 0;
    for (size_t i = at; i < at + digits; ++i) {
      const int value = i < source_.size() ? hex_value(source_[i]) : -1;
      if (value < 0) fail("an escape in a string is not complete");
      code = code * 16 + static_cast<uint32_t>(value);
    }
    return code;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenise(std::string_view source) { return Lexer(source).run(); }

}  // namespace fathom::jinja
