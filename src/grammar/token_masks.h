// Which tokens may come next. What a grammar's state allows by itself is found by one walk over the
// vocabulary and kept; only tokens that reach beyond the rule's end depend on what called it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/token_trie.h"

namespace fathom::grammar {

// Used by one thread.
class TokenMasks {
 public:
  // Both must outlive it.
  TokenMasks(const Grammar& grammar, const TokenTrie& trie) : grammar_(grammar), trie_(trie) {}

  // Adds the tokens whose bytes can follow at `places`, whose stacks are in `stacks`.
  void add_allowed(const Places& places, const Stacks& stacks, TokenSet* allowed);

  // States looked at, for measurements.
  size_t walks() const { return walks_; }

 private:
  // What follows from one state below one node of the trie.
  struct Entry {
    TokenSet many;              // where they are many, else
    std::vector<int32_t> few;   // these
    std::vector<int32_t> ends;  // nodes at which the rule ends while tokens go on
  };
  static constexpr int32_t kRoot = -1;

  const Entry& entry(int32_t state, int32_t node);
  Entry walk(int32_t state, int32_t node);

  const Grammar& grammar_;
  const TokenTrie& trie_;
  std::unordered_map<uint64_t, Entry> entries_;
  size_t bytes_ = 0;
  size_t walks_ = 0;
};

}  // namespace fathom::grammar
