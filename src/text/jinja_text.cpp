#include "text/jinja_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/unicode.h"

namespace fathom::jinja {

bool Text::trusted_at(size_t at) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), at,
                                    [](size_t value, const Run& r) { return value < r.end; });
  return run != runs_.end() && run->trusted;
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), trusted});
  }
}

void Text::append(const Text& text, size_t begin, size_t end) {
  auto run = std::upper_bound(text.runs_.begin(), text.runs_.end(), begin,
                              [](size_t value, const Run& r) { return value < r.end; });
  for (; begin < end; ++run) {
    const size_t stop = std::min(run->end, end);
    append(text.view().substr(begin, stop - begin), run->trusted);
    begin = stop;
  }
}

Text Text::part(size_t begin, size_t end) const {
  Text result;
  result.append(*this, begin, end);
  return result;
}

char32_t character_of(std::string_view text, size_t at, size_t& size) {
  const unicode::Sequence sequence = unicode::sequence_at(text, at);
  const bool valid = sequence.kind == unicode::SequenceKind::valid;
  size = valid ? sequence.length : 1;
  return valid ? sequence.code : 0xFFFD;
}

std::vector<size_t> character_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    offsets.push_back(at);
    character_of(text, at, size);
  }
  offsets.push_back(text.size());
  return offsets;
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size, ++count) character_of(text, at, size);
  return count;
}

bool is_space(char32_t code) {
  // The four separators of ASCII are white space to str.isspace(), though not to Unicode.
  return (code >= 0x1C && code <= 0x1F) || unicode::is_white_space(code);
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  size_t size = 0;
  while (at < text.size() && is_space(character_of(text, at, size))) at += size;
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    size_t size = 0;
    if (!is_space(character_of(text, at, size)) || at + size != end) break;
    end = at;
  }
  return text.size() - end;
}

std::string_view trim_end(std::string_view text) {
  return text.substr(0, text.size() - trailing_space(text));
}

namespace {

bool is_cased(char32_t code) {
  const auto c = static_cast<utf8proc_int32_t>(code);
  return utf8proc_toupper(c) != c || utf8proc_tolower(c) != c;
}

char32_t upper_of(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}
char32_t lower_of(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

bool in_class(char32_t code, CharacterClass wanted) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool alpha = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool digit = category == UTF8PROC_CATEGORY_ND;
  switch (wanted) {
    case CharacterClass::alpha:
      return alpha;
    case CharacterClass::digit:
      return digit;
    case CharacterClass::alnum:
      return alpha || digit || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
    case CharacterClass::space:
      return is_space(code);
    case CharacterClass::upper:
      return category == UTF8PROC_CATEGORY_LU;
    case CharacterClass::lower:
      return category == UTF8PROC_CATEGORY_LL;
  }
  return false;
}

}  // namespace

Text change_case(const Text& text, Casing casing) {
  Text result;
  bool in_word = false;
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text.view(), at, size);
    const bool raise = casing == Casing::upper || (casing == Casing::title && !in_word) ||
                       (casing == Casing::capitalize && at == 0);
    if (raise && code == 0xDF) {  // sharp s, the one common letter whose upper case is two
      result.append(casing == Casing::upper ? "SS" : "Ss", text.trusted_at(at));
    } else if (is_cased(code)) {
      std::string changed;
      unicode::append_utf8(changed, raise ? upper_of(code) : lower_of(code));
      result.append(changed, text.trusted_at(at));
    } else {
      result.append(text, at, at + size);
    }
    in_word = is_cased(code);
  }
  return result;
}

bool all_of_class(std::string_view text, CharacterClass wanted) {
  const bool by_case = wanted == CharacterClass::upper || wanted == CharacterClass::lower;
  bool any = false;
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text, at, size);
    if (in_class(code, wanted)) {
      any = true;
    } else if (!by_case || is_cased(code)) {  // characters without case do not count against it
      return false;
    }
  }
  return any;
}

namespace {

bool strips(std::string_view text, size_t at, size_t size, char32_t code,
            const std::string_view* set) {
  return set == nullptr ? is_space(code) : set->find(text.substr(at, size)) != set->npos;
}

}  // namespace

Text strip(const Text& text, const std::string_view* set, bool left, bool right) {
  const std::vector<size_t> offsets = character_offsets(text.view());
  size_t begin = 0;
  size_t end = offsets.size() - 1;
  const auto goes = [&](size_t character) {
    size_t size = 0;
    const char32_t code = character_of(text.view(), offsets[character], size);
    return strips(text.view(), offsets[character], size, code, set);
  };
  while (left && begin < end && goes(begin)) ++begin;
  while (right && end > begin && goes(end - 1)) --end;
  return text.part(offsets[begin], offsets[end]);
}

namespace {

struct Range {
  size_t begin;
  size_t end;
};

std::vector<Range> split_at(std::string_view text, std::string_view separator, int64_t most,
                            bool from_right) {
  std::vector<Range> parts;
  size_t begin = 0;
  size_t end = text.size();
  for (int64_t cuts = 0; most < 0 || cuts < most; ++cuts) {
    if (from_right) {
      const size_t at =
          end < separator.size() ? text.npos : text.rfind(separator, end - separator.size());
      if (at == text.npos) break;
      parts.push_back({at + separator.size(), end});
      end = at;
    } else {
      const size_t at = text.find(separator, begin);
      if (at == text.npos) break;
      parts.push_back({begin, at});
      begin = at + separator.size();
    }
  }
  parts.push_back({begin, end});
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

// Words. Once `most` cuts are made the rest of the text is one word, blanks at its far end
// included.
std::vector<Range> split_at_space(std::string_view text, int64_t most, bool from_right) {
  std::vector<Range> words;
  size_t size = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size(); at += size) {
    const bool space = is_space(character_of(text, at, size));
    if (!space && !in_word) words.push_back({at, at});
    if (!space) words.back().end = at + size;
    in_word = !space;
  }
  if (most < 0 || static_cast<int64_t>(words.size()) <= most) return words;
  const auto kept = static_cast<size_t>(most) + 1;
  if (from_right) {
    words.erase(words.begin(), words.end() - static_cast<std::ptrdiff_t>(kept));
    words.front().begin = 0;
  } else {
    words.resize(kept);
    words.back().end = text.size();
  }
  return words;
}

}  // namespace

std::vector<Text> split(const Text& text, const std::string_view* separator, int64_t most,
                        bool from_right) {
  const std::vector<Range> ranges = separator == nullptr
                                        ? split_at_space(text.view(), most, from_right)
                                        : split_at(text.view(), *separator, most, from_right);
  std::vector<Text> parts;
  parts.reserve(ranges.size());
  for (const Range& range : ranges) parts.push_back(text.part(range.begin, range.end));
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  size_t begin = 0;
  size_t size = 0;
  for (size_t at = 0; at < text.size(); at += size) {
    const char32_t code = character_of(text.view(), at, size);
    const bool ends = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) ||
                      code == 0x85 || code == 0x2028 || code == 0x2029;
    if (!ends) continue;
    if (code == '\r' && text.view().substr(at + 1, 1) == "\n") ++size;
    lines.push_back(text.part(begin, keep_ends ? at + size : at));
    begin = at + size;
  }
  if (begin < text.size()) lines.push_back(text.part(begin, text.size()));
  return lines;
}

}  // namespace fathom::jinja
