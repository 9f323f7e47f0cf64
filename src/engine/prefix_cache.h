// What finished sequences have cached, for requests that begin with the same tokens. Pages are
// shared and copied when somebody writes to them, so that nothing changes for anybody.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "cache/kv_cache.h"

namespace fathom {

// The cache of some sequence, and how many of its first tokens are those that were looked for.
struct SharedPrefix {
  std::span<const int32_t> ids;  // what is cached
  const KvSequence* cache = nullptr;
  int64_t mtp_length = 0;  // see CacheState
  int64_t same = 0;
};

// How much of `prefix` can be taken for a sequence of `known` tokens, of which the last one has to
// be computed; 0 where it is not worth it.
int64_t usable_tokens(const SharedPrefix& prefix, std::span<const int32_t> known);

class PrefixCache {
 public:
  void keep(const SharedPrefix& finished);
  // The one of which most is usable.
  std::optional<SharedPrefix> find(std::span<const int32_t> known);
  // Forgets what was used longest ago; false where there is nothing.
  bool drop_oldest();
  void clear() { entries_.clear(); }
  // Pages that only the entries hold.
  int64_t pages() const;

 private:
  struct Entry {
    std::vector<int32_t> ids;
    KvSequence cache;
    int64_t mtp_length;
    SharedPrefix prefix() const { return {ids, &cache, mtp_length, 0}; }
  };
  std::list<Entry> entries_;  // the last used one first
};

}  // namespace fathom
