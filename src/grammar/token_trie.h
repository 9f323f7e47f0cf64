// A vocabulary's bytes as a tree, so that what begins alike is looked at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom::grammar {

// One bit per token.
class TokenSet {
 public:
  explicit TokenSet(int64_t tokens = 0) : words_(static_cast<size_t>((tokens + 63) / 64), 0) {}

  void add(int32_t token) { words_[word(token)] |= uint64_t{1} << (token & 63); }
  void remove(int32_t token) {
    if (word(token) < words_.size()) words_[word(token)] &= ~(uint64_t{1} << (token & 63));
  }
  // As far as this set reaches.
  void add(const TokenSet& other) {
    const size_t common = std::min(words_.size(), other.words_.size());
    for (size_t i = 0; i < common; ++i) words_[i] |= other.words_[i];
  }
  bool has(int32_t token) const { return (words_[word(token)] >> (token & 63) & 1) != 0; }
  bool empty() const;
  std::span<const uint64_t> words() const { return words_; }
  // Token i's logit becomes -infinity where it is not in the set.
  void keep_only(std::span<float> logits) const;

 private:
  static size_t word(int32_t token) { return static_cast<size_t>(token) / 64; }
  std::vector<uint64_t> words_;
};

class TokenTrie {
 public:
  // `bytes[i]`: token i's; empty ones are left out.
  explicit TokenTrie(std::span<const std::string_view> bytes);

  int64_t tokens() const { return tokens_; }
  // Which bytes are a token of their own.
  const std::vector<bool>& single_bytes() const { return single_bytes_; }

  // In the order of a walk: a node, then all that is below it, up to `end`.
  struct Node {
    int32_t end;
    int32_t first_token;  // tokens_of() until the next node's
    uint16_t depth;       // from 1
    uint8_t byte;
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const int32_t> tokens_of(size_t node) const;

  // Plain tokens are a few whole characters, each of which stands for itself in a JSON string. They
  // have a tree of their own, nodes 0 .. plain_end() - 1.
  int32_t plain_end() const { return plain_end_; }
  // Those of at most `characters` characters.
  const TokenSet& plain(int32_t characters) const;

 private:
  void insert(std::span<const std::pair<std::string_view, int32_t>> sorted, size_t depth);

  int64_t tokens_;
  std::vector<bool> single_bytes_;
  std::vector<Node> nodes_;
  std::vector<int32_t> ids_;
  int32_t plain_end_ = 0;
  std::vector<TokenSet> plain_;  // by length
};

}  // namespace fathom::grammar
