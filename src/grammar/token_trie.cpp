#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace fathom::grammar {
namespace {

constexpr size_t kMostLengths = 64;

// Length of the character at the text's beginning, 0 where there is no whole one.
size_t character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  const size_t size = lead < 0x80   ? 1
                      : lead < 0xC2 ? 0
                      : lead < 0xE0 ? 2
                      : lead < 0xF0 ? 3
                      : lead < 0xF5 ? 4
                                    : 0;
  if (size == 0 || size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (size < 2) return size;
  const uint8_t second = byte(1);
  const bool wrong = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
                     (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
  return wrong ? 0 : size;
}

// How many characters a plain token has; none where it is not plain.
std::optional<size_t> plain_characters(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    const auto lead = static_cast<uint8_t>(text[0]);
    const size_t size = character(text);
    if (size == 0 || lead < 0x20 || lead == '"' || lead == '\\') return std::nullopt;
    text.remove_prefix(size);
    ++count;
  }
  return count;
}

}  // namespace

bool TokenSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t word) { return word == 0; });
}

void TokenSet::keep_only(std::span<float> logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (size_t first = 0; first < logits.size(); first += 64) {
    const size_t count = std::min<size_t>(64, logits.size() - first);
    const uint64_t word = first / 64 < words_.size() ? words_[first / 64] : 0;
    if (word == 0) {
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(first), count, kNever);
    } else if (word != ~uint64_t{0}) {
      for (size_t i = 0; i < count; ++i) {
        if ((word >> i & 1) == 0) logits[first + i] = kNever;
      }
    }
  }
}

TokenTrie::TokenTrie(std::span<const std::string_view> bytes)
    : tokens_(static_cast<int64_t>(bytes.size())), single_bytes_(256, false) {
  std::vector<std::pair<std::string_view, int32_t>> plain;
  std::vector<std::pair<std::string_view, int32_t>> others;
  plain_.resize(kMostLengths + 1, TokenSet(tokens_));
  for (size_t id = 0; id < bytes.size(); ++id) {
    const std::string_view text = bytes[id].substr(0, std::numeric_limits<uint16_t>::max());
    if (text.empty() || text.size() != bytes[id].size()) continue;
    const auto token = static_cast<int32_t>(id);
    if (text.size() == 1) single_bytes_[static_cast<uint8_t>(text[0])] = true;
    const auto characters = plain_characters(text);
    const bool counted = characters && *characters <= kMostLengths;
    (counted ? plain : others).emplace_back(text, token);
    if (counted) plain_[*characters].add(token);
  }
  for (size_t i = 1; i < plain_.size(); ++i) plain_[i].add(plain_[i - 1]);
  std::sort(plain.begin(), plain.end());
  std::sort(others.begin(), others.end());
  insert(plain, 0);
  plain_end_ = static_cast<int32_t>(nodes_.size());
  insert(others, 0);
}

void TokenTrie::insert(std::span<const std::pair<std::string_view, int32_t>> sorted, size_t depth) {
  for (size_t i = 0; i < sorted.size();) {
    const char byte = sorted[i].first[depth];
    size_t end = i;
    while (end < sorted.size() && sorted[end].first[depth] == byte) ++end;
    const size_t node = nodes_.size();
    nodes_.push_back({0, static_cast<int32_t>(ids_.size()), static_cast<uint16_t>(depth + 1),
                      static_cast<uint8_t>(byte)});
    for (; i < end && sorted[i].first.size() == depth + 1; ++i) ids_.push_back(sorted[i].second);
    insert(sorted.subspan(i, end - i), depth + 1);
    nodes_[node].end = static_cast<int32_t>(nodes_.size());
    i = end;
  }
}

std::span<const int32_t> TokenTrie::tokens_of(size_t node) const {
  const auto first = static_cast<size_t>(nodes_[node].first_token);
  const size_t end =
      node + 1 < nodes_.size() ? static_cast<size_t>(nodes_[node + 1].first_token) : ids_.size();
  return std::span(ids_).subspan(first, end - first);
}

const TokenSet& TokenTrie::plain(int32_t characters) const {
  const auto length = static_cast<size_t>(std::max(characters, 0));
  return plain_[std::min(length, kMostLengths)];
}

}  // namespace fathom::grammar
