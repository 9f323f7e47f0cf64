// Byte-pair merges: a piece of text to ids.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace fathom {

// The printable alphabet in which byte-level vocabularies spell bytes: visible Latin-1 characters
// stand for themselves, the other 68 bytes for U+0100 to U+0143.
// The bytes that `spelling` stands for; nullopt where a character is none of the alphabet's.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);
std::string spelling_of_bytes(std::string_view bytes);

// A map from byte strings to ids that keeps the strings back to back.
class TokenTable {
 public:
  static constexpr TokenId kNone = -1;

  void reserve(size_t tokens, size_t bytes);
  // False where the string is there already.
  bool insert(std::string_view bytes, TokenId id);
  TokenId find(std::string_view bytes) const { return find(bytes, hash(bytes)); }
  TokenId find(std::string_view bytes, uint64_t hash) const;
  size_t longest() const { return longest_; }
  static uint64_t hash(std::string_view bytes);

 private:
  struct Entry {
    uint32_t offset;
    uint32_t length;
    TokenId id;
  };
  struct Slot {
    uint32_t tag = 0;    // high half of the hash
    uint32_t entry = 0;  // index + 1; 0 is empty
  };
  void grow(size_t slots);
  std::string_view text(const Entry& entry) const {
    return std::string_view(pool_).substr(entry.offset, entry.length);
  }

  std::string pool_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  size_t longest_ = 0;
};

// From (left, right) to the merge of the two.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  struct Merge {
    uint64_t pair = UINT64_MAX;
    uint32_t rank = kNoRank;  // the lowest is applied first
    TokenId result = TokenTable::kNone;
  };

  void reserve(size_t merges);
  // A later merge of the same pair replaces an earlier one.
  void insert(TokenId left, TokenId right, uint32_t rank, TokenId result);
  const Merge& find(TokenId left, TokenId right) const {
    const uint64_t pair = key(left, right);
    for (size_t i = place(pair);; i = (i + 1) & mask_) {
      if (slots_[i].pair == pair || slots_[i].pair == UINT64_MAX) return slots_[i];
    }
  }

 private:
  static uint64_t key(TokenId left, TokenId right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  }
  size_t place(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15u) >> shift_; }

  std::vector<Merge> slots_ = std::vector<Merge>(2);
  size_t mask_ = 1;
  int shift_ = 63;
  size_t used_ = 0;
};

// The vocabulary and its merges. Immutable after loading, except for what it remembers about single
// tokens, which is the same whoever finds it out.
class Bpe {
 public:
  struct Options {
    bool ignore_merges = false;  // a piece that is a token as a whole is that token
    bool fuse_unk = false;       // neighbouring unknown bytes are one unk token
    TokenId unk = TokenTable::kNone;
  };

  void reserve(size_t tokens, size_t bytes, size_t merges);
  bool add_token(std::string_view bytes, TokenId id) { return tokens_.insert(bytes, id); }
  TokenId find(std::string_view bytes) const { return tokens_.find(bytes); }
  void add_merge(TokenId left, TokenId right, uint32_t rank, TokenId result) {
    merges_.insert(left, right, rank, result);
  }
  // After the last token and merge. `reserved[id]` marks ids that no piece of text may become.
  void finish(const Options& options, std::vector<bool> reserved);

  // What one call of encode keeps: pieces seen before and room to work.
  class Scratch {
   public:
    explicit Scratch(size_t text_bytes);
    // Pieces remembered so far may no longer be read.
    void forget() { ++generation_; }

   private:
    friend class Bpe;
    // A piece seen before: its ids are still in the output, so only the place is kept.
    struct Seen {
      const char* piece = nullptr;
      uint32_t length = 0;
      uint32_t count = 0;
      uint32_t first = 0;
      uint32_t generation = 0;
    };
    uint32_t generation_ = 1;
    std::vector<Seen> seen_;
    std::vector<TokenId> ids_;
    std::vector<uint32_t> ranks_;
    std::vector<uint32_t> next_;
    std::vector<uint32_t> previous_;
    std::vector<uint64_t> queue_;
  };

  // Appends the piece's ids. `lasting`: the piece can be read until the scratch forgets. Returns
  // the place of a byte for which the vocabulary has no token, npos where all went well.
  size_t encode(std::string_view piece, bool lasting, Scratch& scratch,
                std::vector<TokenId>& out) const;

 private:
  size_t merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void merge_short(std::string_view piece, Scratch& scratch) const;
  void merge_long(std::string_view piece, Scratch& scratch) const;

  TokenTable tokens_;
  MergeTable merges_;
  Options options_;
  std::vector<bool> reserved_;
  TokenId byte_ids_[256];
  // Per id: whether merging the token's own bytes gives just that token.
  enum : uint8_t { kUnknown, kWhole, kNotWhole };
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace fathom
