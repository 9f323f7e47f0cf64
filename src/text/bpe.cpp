#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "text/unicode.h"

namespace fathom {
namespace {

// Up to here the quadratic way, which touches two small arrays, is faster than the queue.
constexpr size_t kShortPiece = 96;
// Longer pieces hardly ever come twice.
constexpr size_t kLongestRemembered = 64;
constexpr size_t kMostRemembered = size_t{1} << 13;

struct ByteAlphabet {
  uint16_t character[256];
  int16_t byte[0x144];

  ByteAlphabet() {
    std::fill(std::begin(byte), std::end(byte), int16_t{-1});
    uint16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool visible = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      character[b] = visible ? static_cast<uint16_t>(b) : next++;
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  const ByteAlphabet& alphabet = byte_alphabet();
  std::string bytes;
  bytes.reserve(spelling.size());
  for (size_t at = 0; at < spelling.size(); at += unicode::length_of_valid(spelling[at])) {
    const char32_t character = unicode::character_at(spelling, at);
    if (character >= std::size(alphabet.byte) || alphabet.byte[character] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet.byte[character]);
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) {
    unicode::append_utf8(spelling, byte_alphabet().character[static_cast<uint8_t>(byte)]);
  }
  return spelling;
}

uint64_t TokenTable::hash(std::string_view bytes) {
  const auto mix = [](uint64_t value) {
    value *= 0x9E3779B97F4A7C15u;
    return value ^ (value >> 32);
  };
  uint64_t state = bytes.size();
  const char* data = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, data += 8) {
    uint64_t eight;
    std::memcpy(&eight, data, 8);
    state = mix(state ^ eight);
  }
  uint64_t rest = 0;
  for (size_t i = 0; i < left; ++i) rest |= uint64_t{static_cast<uint8_t>(data[i])} << (8 * i);
  return mix(mix(state ^ rest));
}

void TokenTable::reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  pool_.reserve(bytes);
  grow(std::bit_ceil(std::max<size_t>(16, tokens * 2)));
}

void TokenTable::grow(size_t slots) {
  slots_.assign(slots, Slot{});
  for (size_t i = 0; i < entries_.size(); ++i) {
    const uint64_t h = hash(text(entries_[i]));
    size_t at = h & (slots - 1);
    while (slots_[at].entry != 0) at = (at + 1) & (slots - 1);
    slots_[at] = {static_cast<uint32_t>(h >> 32), static_cast<uint32_t>(i + 1)};
  }
}

bool TokenTable::insert(std::string_view bytes, TokenId id) {
  if ((entries_.size() + 1) * 2 > slots_.size()) grow(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t h = hash(bytes);
  if (find(bytes, h) != kNone) return false;
  size_t at = h & (slots_.size() - 1);
  while (slots_[at].entry != 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<uint32_t>(h >> 32), static_cast<uint32_t>(entries_.size() + 1)};
  entries_.push_back(
      {static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(bytes.size()), id});
  pool_.append(bytes);
  longest_ = std::max(longest_, bytes.size());
  return true;
}

TokenId TokenTable::find(std::string_view bytes, uint64_t h) const {
  if (slots_.empty()) return kNone;
  const size_t mask = slots_.size() - 1;
  for (size_t at = h & mask; slots_[at].entry != 0; at = (at + 1) & mask) {
    if (slots_[at].tag != static_cast<uint32_t>(h >> 32)) continue;
    const Entry& entry = entries_[slots_[at].entry - 1];
    if (text(entry) == bytes) return entry.id;
  }
  return kNone;
}

void MergeTable::reserve(size_t merges) {
  const std::vector<Merge> old = std::move(slots_);
  const size_t slots = std::bit_ceil(std::max<size_t>(2, std::max(merges, used_) * 2));
  slots_.assign(slots, Merge{});
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (const Merge& merge : old) {
    if (merge.pair == UINT64_MAX) continue;
    size_t at = place(merge.pair);
    while (slots_[at].pair != UINT64_MAX) at = (at + 1) & mask_;
    slots_[at] = merge;
  }
}

void MergeTable::insert(TokenId left, TokenId right, uint32_t rank, TokenId result) {
  if ((used_ + 1) * 2 > slots_.size()) reserve(slots_.size());
  const uint64_t pair = key(left, right);
  size_t at = place(pair);
  while (slots_[at].pair != UINT64_MAX && slots_[at].pair != pair) at = (at + 1) & mask_;
  if (slots_[at].pair == UINT64_MAX) ++used_;
  slots_[at] = {pair, rank, result};
}

void Bpe::reserve(size_t tokens, size_t bytes, size_t merges) {
  tokens_.reserve(tokens, bytes);
  merges_.reserve(merges);
}

void Bpe::finish(const Options& options, std::vector<bool> reserved) {
  options_ = options;
  reserved_ = std::move(reserved);
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = tokens_.find({&byte, 1});
  }
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(reserved_.size());
}

Bpe::Scratch::Scratch(size_t text_bytes)
    : seen_(std::bit_ceil(std::clamp<size_t>(text_bytes / 8, 16, kMostRemembered))) {}

size_t Bpe::encode(std::string_view piece, bool lasting, Scratch& scratch,
                   std::vector<TokenId>& out) const {
  if (piece.size() == 1) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(piece[0])];
    if (id == TokenTable::kNone) return merge(piece, scratch, out);
    out.push_back(id);
    return std::string_view::npos;
  }
  if (piece.size() > std::max(kLongestRemembered, tokens_.longest())) {
    return merge(piece, scratch, out);
  }
  const uint64_t hash = TokenTable::hash(piece);
  Scratch::Seen& seen = scratch.seen_[hash >> 40 & (scratch.seen_.size() - 1)];
  if (seen.generation == scratch.generation_ && seen.length == piece.size() &&
      std::memcmp(seen.piece, piece.data(), piece.size()) == 0) {
    const size_t first = out.size();
    out.resize(first + seen.count);
    std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(seen.first), seen.count,
                out.begin() + static_cast<std::ptrdiff_t>(first));
    return std::string_view::npos;
  }

  const size_t first = out.size();
  size_t missing = std::string_view::npos;
  const TokenId id = tokens_.find(piece, hash);
  const uint8_t whole =
      id == TokenTable::kNone || reserved_[static_cast<size_t>(id)] ? uint8_t{kNotWhole}
      : options_.ignore_merges                                      ? uint8_t{kWhole}
                               : whole_[static_cast<size_t>(id)].load(std::memory_order_relaxed);
  if (whole == kWhole) {
    out.push_back(id);
  } else {
    missing = merge(piece, scratch, out);
    if (whole == kUnknown) {
      const bool is_whole = out.size() == first + 1 && out[first] == id;
      whole_[static_cast<size_t>(id)].store(is_whole ? kWhole : kNotWhole,
                                            std::memory_order_relaxed);
    }
  }
  if (lasting && missing == std::string_view::npos) {
    seen = {piece.data(), static_cast<uint32_t>(piece.size()),
            static_cast<uint32_t>(out.size() - first), static_cast<uint32_t>(first),
            scratch.generation_};
  }
  return missing;
}

size_t Bpe::merge(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const {
  if (piece.size() <= kShortPiece) {
    merge_short(piece, scratch);
  } else {
    merge_long(piece, scratch);
  }
  const std::vector<TokenId>& ids = scratch.ids_;
  if (std::find(ids.begin(), ids.end(), TokenTable::kNone) == ids.end()) {
    out.insert(out.end(), ids.begin(), ids.end());
    return std::string_view::npos;
  }
  if (options_.unk == TokenTable::kNone) {
    const auto missing = std::find_if(piece.begin(), piece.end(), [&](char byte) {
      return byte_ids_[static_cast<uint8_t>(byte)] == TokenTable::kNone;
    });
    return static_cast<size_t>(missing - piece.begin());
  }
  bool previous_unknown = false;
  for (const TokenId id : ids) {
    const bool unknown = id == TokenTable::kNone;
    if (!(unknown && previous_unknown && options_.fuse_unk)) {
      out.push_back(unknown ? options_.unk : id);
    }
    previous_unknown = unknown;
  }
  return std::string_view::npos;
}

// Scans all pairs for the lowest rank, leftmost first, until none is left.
void Bpe::merge_short(std::string_view piece, Scratch& scratch) const {
  scratch.ids_.resize(piece.size());
  scratch.ranks_.resize(piece.size() + 1);
  TokenId* ids = scratch.ids_.data();
  uint32_t* ranks = scratch.ranks_.data();  // ranks[i]: of the pair ids[i], ids[i + 1]
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) ids[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = merges_.find(ids[i], ids[i + 1]).rank;
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == MergeTable::kNoRank) break;
    ids[best] = merges_.find(ids[best], ids[best + 1]).result;
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    --count;
    if (best + 1 < count) {
      std::copy(ranks + best + 2, ranks + count, ranks + best + 1);
      ranks[best] = merges_.find(ids[best], ids[best + 1]).rank;
    }
    if (best > 0) ranks[best - 1] = merges_.find(ids[best - 1], ids[best]).rank;
  }
  scratch.ids_.resize(count);
}

// The same with a queue ordered by rank, then place: n log n for pieces of any length.
void Bpe::merge_long(std::string_view piece, Scratch& scratch) const {
  const auto count = static_cast<uint32_t>(piece.size());
  std::vector<TokenId>& ids = scratch.ids_;
  std::vector<uint32_t>& ranks = scratch.ranks_;
  std::vector<uint32_t>& next = scratch.next_;
  std::vector<uint32_t>& previous = scratch.previous_;
  std::vector<uint64_t>& queue = scratch.queue_;
  ids.resize(count);
  ranks.assign(count, MergeTable::kNoRank);
  next.resize(count);
  previous.resize(count);
  queue.clear();
  for (uint32_t i = 0; i < count; ++i) {
    ids[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
    next[i] = i + 1;
    previous[i] = i - 1;
  }
  const auto entry = [&](uint32_t at) { return (uint64_t{ranks[at]} << 32) | at; };
  for (uint32_t i = 0; i + 1 < count; ++i) {
    ranks[i] = merges_.find(ids[i], ids[i + 1]).rank;
    if (ranks[i] != MergeTable::kNoRank) queue.push_back(entry(i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto update = [&](uint32_t at) {
    ranks[at] = next[at] < count ? merges_.find(ids[at], ids[next[at]]).rank : MergeTable::kNoRank;
    if (ranks[at] == MergeTable::kNoRank) return;
    queue.push_back(entry(at));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    const uint64_t top = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (ranks[at] != top >> 32) continue;  // the pair has changed since
    const uint32_t right = next[at];
    ids[at] = merges_.find(ids[at], ids[right]).result;
    ranks[right] = MergeTable::kNoRank;
    next[at] = next[right];
    if (next[at] < count) previous[next[at]] = at;
    update(at);
    if (at > 0) update(previous[at]);
  }
  size_t kept = 0;
  for (uint32_t i = 0; i < count; i = next[i]) ids[kept++] = ids[i];
  ids.resize(kept);
}

}  // namespace fathom
