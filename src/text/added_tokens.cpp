#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode.h"

namespace fathom {

void AddedTokenFinder::build(std::vector<Pattern> patterns) {
  patterns_ = std::move(patterns);
  std::stable_sort(patterns_.begin(), patterns_.end(),
                   [](const Pattern& a, const Pattern& b) { return a.content < b.content; });
  ranges_.fill({0, 0});
  only_first_ = -1;
  for (uint32_t i = 0; i < patterns_.size();) {
    const auto first = static_cast<uint8_t>(patterns_[i].content.front());
    const uint32_t begin = i;
    while (i < patterns_.size() && static_cast<uint8_t>(patterns_[i].content.front()) == first) ++i;
    ranges_[first] = {begin, i};
    if (i - begin == patterns_.size()) only_first_ = first;
  }
}

bool AddedTokenFinder::find(std::string_view text, size_t from, Found& found) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (only_first_ >= 0) {
      const void* next = std::memchr(text.data() + at, only_first_, text.size() - at);
      if (next == nullptr) return false;
      at = static_cast<size_t>(static_cast<const char*>(next) - text.data());
    }
    auto [low, high] = ranges_[static_cast<uint8_t>(text[at])];
    const Pattern* longest = nullptr;
    // The patterns that agree with the text so far are neighbours; each byte narrows them.
    for (size_t depth = 1; low < high; ++depth) {
      if (patterns_[low].content.size() == depth) longest = &patterns_[low];
      while (low < high && patterns_[low].content.size() == depth) ++low;
      if (low == high || at + depth == text.size()) break;
      const auto byte = static_cast<uint8_t>(text[at + depth]);
      const auto byte_of = [&](const Pattern& p) { return static_cast<uint8_t>(p.content[depth]); };
      const auto first = patterns_.begin();
      low = static_cast<uint32_t>(
          std::partition_point(first + low, first + high,
                               [&](const Pattern& p) { return byte_of(p) < byte; }) -
          first);
      high = static_cast<uint32_t>(
          std::partition_point(first + low, first + high,
                               [&](const Pattern& p) { return byte_of(p) == byte; }) -
          first);
    }
    if (longest != nullptr) {
      found = {at, at + longest->content.size(), longest->token};
      return true;
    }
  }
  return false;
}

bool AddedTokenFinder::stands_alone(std::string_view text, const Found& found) {
  if (!found.token->single_word) return true;
  const bool word_before =
      found.begin > 0 &&
      unicode::is_word(unicode::character_at(text, unicode::previous_character(text, found.begin)));
  const bool word_after =
      found.end < text.size() && unicode::is_word(unicode::character_at(text, found.end));
  return !word_before && !word_after;
}

std::pair<size_t, size_t> AddedTokenFinder::with_white_space(std::string_view text,
                                                             const Found& found, size_t done) {
  size_t begin = found.begin;
  size_t end = found.end;
  while (found.token->lstrip && begin > done) {
    const size_t before = unicode::previous_character(text, begin);
    if (!unicode::is_white_space(unicode::character_at(text, before))) break;
    begin = before;
  }
  while (found.token->rstrip && end < text.size() &&
         unicode::is_white_space(unicode::character_at(text, end))) {
    end += unicode::length_of_valid(text[end]);
  }
  return {begin, end};
}

}  // namespace fathom
