// Ruby-syntax Oniguruma expressions to PCRE2's dialect. Both agree on most of what tokenizer files
// use; this handles where they do not:
//   \s \S \w \W \b \B   Oniguruma takes Unicode's White_Space and word characters; PCRE2's sets
//   differ \h \v \uHHHH        hexadecimal digit, vertical tab, code point; something else in PCRE2
//   (?m)                "." matches newlines; PCRE2 calls that s. ^ and $ match at every line
//   always
//   {,n}  {n,m}+        up to n; a repeat of the repeat (not possessive)
//   [a&&b] [a[b]]       set operations, which PCRE2 has not: refused
#include <cctype>
#include <optional>

#include "base/error.h"
#include "text/pattern.h"

namespace fathom {
namespace {

constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kHex = "0-9A-Fa-f";

class Translator {
 public:
  Translator(std::string_view source, const std::string& what) : source_(source), what_(what) {}

  TranslatedPattern run() {
    while (at_ < source_.size()) item();
    mark(source_.size());
    out_.origin.push_back(static_cast<uint32_t>(source_.size()));
    return std::move(out_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(size_t offset, fmt::format_string<Args...> text, Args&&... args) const {
    fail_input("{}: regular expression, offset {}: {}", what_, offset,
               fmt::format(text, std::forward<Args>(args)...));
  }

  // Everything written since the last mark stems from source offset `begin`.
  void mark(size_t begin) { out_.origin.resize(out_.text.size(), static_cast<uint32_t>(begin)); }
  bool next_is(std::string_view text) const { return source_.substr(at_).starts_with(text); }

  // One atom, group bracket, alternative or repeat.
  void item() {
    const size_t begin = at_;
    const char c = source_[at_];
    switch (c) {
      case '(':
        open_group();
        break;
      case ')':
        ++at_;
        out_.text += ')';
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        break;
      case '|':
        ++at_;
        out_.text += '|';
        atom_.reset();
        break;
      case '[':
        atom_ = out_.text.size();
        set();
        break;
      case '\\':
        atom_ = out_.text.size();
        escape();
        break;
      case '*':
      case '+':
      case '?':
        ++at_;
        out_.text += c;
        // A second + makes it possessive, a second ? lazy, in both dialects.
        if (at_ < source_.size() && (source_[at_] == '+' || source_[at_] == '?')) {
          out_.text += source_[at_++];
        }
        break;
      case '{':
        if (!interval()) literal();
        break;
      default:
        literal();
    }
    mark(begin);
  }

  void literal() {
    atom_ = out_.text.size();
    const char c = source_[at_];
    if (c == '{') out_.text += '\\';
    // A whole character, so that a repeat's atom is never a part of one.
    do {
      out_.text += source_[at_++];
    } while (at_ < source_.size() && (static_cast<uint8_t>(source_[at_]) & 0xC0) == 0x80);
  }

  void open_group() {
    const size_t begin = at_;
    const size_t atom = out_.text.size();
    if (next_is("(*")) refuse(begin, "(* is not supported");
    if (!next_is("(?")) {
      ++at_;
      out_.text += '(';
      groups_.push_back(atom);
      atom_.reset();
      return;
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (next_is(kind)) {
        at_ += kind.size();
        out_.text += kind;
        groups_.push_back(atom);
        atom_.reset();
        return;
      }
    }
    // (?im-x:...) or (?i)
    std::string options = "(?";
    size_t i = at_ + 2;
    for (; i < source_.size() && (source_[i] == 'i' || source_[i] == 'm' || source_[i] == '-');
         ++i) {
      options += source_[i] == 'm' ? 's' : source_[i];
    }
    if (i < source_.size() && i > at_ + 2 && (source_[i] == ':' || source_[i] == ')')) {
      const bool group = source_[i] == ':';
      // Further in, the two dialects disagree on how far such options reach.
      if (!group && begin != 0) refuse(begin, "options for a rest are only supported at the begin");
      at_ = i + 1;
      out_.text += options;
      out_.text += group ? ':' : ')';
      if (group) groups_.push_back(atom);
      atom_.reset();
      return;
    }
    refuse(begin, "this kind of group is not supported");
  }

  // {n} {n,} {n,m} {,m}; anything else in braces is text.
  bool interval() {
    const size_t begin = at_;
    size_t i = at_ + 1;
    const auto digits = [&] {
      std::string text;
      while (i < source_.size() && source_[i] >= '0' && source_[i] <= '9') text += source_[i++];
      return text;
    };
    const std::string low = digits();
    const bool comma = i < source_.size() && source_[i] == ',';
    if (comma) ++i;
    const std::string high = comma ? digits() : std::string();
    if (i >= source_.size() || source_[i] != '}' || (low.empty() && high.empty())) return false;
    at_ = i + 1;
    if (!atom_) refuse(begin, "nothing to repeat");
    out_.text += '{' + (low.empty() ? "0" : low) + (comma ? "," + high : "") + '}';
    if (at_ < source_.size() && source_[at_] == '+') {
      out_.text.insert(*atom_, "(?:");
      out_.origin.insert(out_.origin.begin() + static_cast<std::ptrdiff_t>(*atom_), 3,
                         static_cast<uint32_t>(begin));
      out_.text += ")+";
      ++at_;
    } else if (at_ < source_.size() && source_[at_] == '?') {
      if (!comma) refuse(begin, "{{n}}? is not supported");
      out_.text += '?';
      ++at_;
    }
    return true;
  }

  void set() {
    const size_t begin = at_;
    out_.text += source_[at_++];
    if (next_is("^")) out_.text += source_[at_++];
    if (next_is("]")) refuse(begin, "empty set");
    set_item_ = begin;
    while (at_ < source_.size() && source_[at_] != ']') {
      const size_t item = at_;
      if (source_[at_] == '[') refuse(at_, "a set within a set is not supported");
      if (next_is("&&")) refuse(at_, "&& within a set is not supported");
      if (source_[at_] == '\\') {
        set_escape();
      } else if (source_[at_] == '-' && !range_at(at_)) {
        out_.text += "\\-";
        ++at_;
      } else {
        out_.text += source_[at_++];
      }
      mark(item);
      set_item_ = item;
    }
    if (at_ == source_.size()) refuse(begin, "the set is not closed");
    out_.text += source_[at_++];
  }

  // True where the hyphen at `at` joins two characters; beside a class it is a plain hyphen.
  bool range_at(size_t at) const {
    constexpr std::string_view kClasses = "swhdpSWHDP";
    const std::string_view before = source_.substr(0, at);
    const bool after_class = set_item_ + 2 <= before.size() && before[set_item_] == '\\' &&
                             kClasses.find(before[set_item_ + 1]) != std::string_view::npos;
    const std::string_view after = source_.substr(at + 1);
    const bool before_class =
        after.size() >= 2 && after[0] == '\\' && kClasses.find(after[1]) != std::string_view::npos;
    return !after_class && !before_class;
  }

  // The escapes that mean the same character or property everywhere; false for others.
  bool common_escape() {
    const size_t begin = at_;
    const char c = source_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'a':
      case 'e':
      case 'd':  // PCRE2_UCP: decimal digits of all scripts
      case 'D':
        out_.text += {'\\', c};
        return true;
      case 'v':
        out_.text += "\\x{b}";
        return true;
      case 'p':
      case 'P': {
        const size_t close = source_.find('}', at_);
        if (!next_is("{") || close == std::string_view::npos) {
          refuse(begin, "a property is written \\p{{Name}}");
        }
        out_.text += source_.substr(begin, close + 1 - begin);
        at_ = close + 1;
        return true;
      }
      case 'u':
        code_point(begin, 4);
        return true;
      case 'x':
        if (next_is("{")) {
          ++at_;
          code_point(begin, 8);
          if (!next_is("}")) refuse(begin, "a code point is written \\x{{HHHH}}");
          ++at_;
        } else {
          code_point(begin, 2);
        }
        return true;
      default:
        if (static_cast<uint8_t>(c) < 0x80 && std::ispunct(static_cast<unsigned char>(c))) {
          out_.text += {'\\', c};
          return true;
        }
        if (c == ' ') {
          out_.text += ' ';
          return true;
        }
        at_ = begin;
        return false;
    }
  }

  void code_point(size_t begin, size_t most) {
    const size_t first = at_;
    while (at_ < source_.size() && at_ - first < most &&
           std::isxdigit(static_cast<unsigned char>(source_[at_]))) {
      ++at_;
    }
    if (at_ == first) refuse(begin, "hexadecimal digits expected");
    if (most == 4 && at_ - first != 4) refuse(begin, "four hexadecimal digits expected");
    out_.text += "\\x{";
    out_.text += source_.substr(first, at_ - first);
    out_.text += '}';
  }

  void set_escape() {
    const size_t begin = at_;
    if (at_ + 1 == source_.size()) refuse(begin, "\\ at the end");
    if (common_escape()) return;
    const char c = source_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 's':
        out_.text += kSpace;
        return;
      case 'S':
        out_.text += kNotSpace;
        return;
      case 'w':
        out_.text += kWord;
        return;
      case 'h':
        out_.text += kHex;
        return;
      default:
        refuse(begin, "\\{} within a set is not supported", c);
    }
  }

  void escape() {
    const size_t begin = at_;
    if (at_ + 1 == source_.size()) refuse(begin, "\\ at the end");
    if (common_escape()) return;
    const char c = source_[at_ + 1];
    at_ += 2;
    const auto bracket = [&](std::string_view open, std::string_view set) {
      out_.text += open;
      out_.text += set;
      out_.text += ']';
    };
    switch (c) {
      case 's':
        return bracket("[", kSpace);
      case 'S':
        return bracket("[^", kSpace);
      case 'w':
        return bracket("[", kWord);
      case 'W':
        return bracket("[^", kWord);
      case 'h':
        return bracket("[", kHex);
      case 'H':
        return bracket("[^", kHex);
      case 'b':
      case 'B': {
        const std::string in = "[" + std::string(kWord) + "]";
        const bool boundary = c == 'b';
        out_.text += "(?:(?<=" + in + ")(?" + (boundary ? "!" : "=") + in + ")|(?<!" + in + ")(?" +
                     (boundary ? "=" : "!") + in + "))";
        return;
      }
      case 'A':
      case 'z':
      case 'Z':
        out_.text += {'\\', c};
        return;
      default:
        refuse(begin, "\\{} is not supported", c);
    }
  }

  std::string_view source_;
  const std::string& what_;
  size_t at_ = 0;
  TranslatedPattern out_;
  size_t set_item_ = 0;         // where the latest item of the set begins in source_
  std::vector<size_t> groups_;  // where each open group begins in out_.text
  std::optional<size_t> atom_;  // where the atom that a repeat would apply to begins
};

}  // namespace

TranslatedPattern translate_pattern(std::string_view source, const std::string& what) {
  return Translator(source, what).run();
}

}  // namespace fathom
