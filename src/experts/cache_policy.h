// Which expert leaves the cache when another one needs its slot.
//
// Decoding visits the MoE layers in a circle and asks a few experts of each, so what was used last
// is what will be needed latest: under LRU a cache smaller than one token's experts loses every
// expert just before it is asked for again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "experts/expert_layout.h"

namespace fathom {

enum class CachePolicyKind {
  forecast,  // the default: keeps what promises most hits for the time until its layer comes
  lru,       // least recently used
  lfu,       // least frequently used, with ageing
  layers,    // some layers keep all that they last asked for, the others pass through
};
const char* cache_policy_name(CachePolicyKind kind);  // "forecast", "lru", "lfu", "layers"
// Error(usage) where the name is unknown.
CachePolicyKind cache_policy_named(std::string_view name);
std::span<const CachePolicyKind> all_cache_policies();

struct CacheShape {
  int64_t slots = 0;
  int64_t moe_layers = 0;
  int64_t experts_per_layer = 0;
  int64_t experts_per_token = 0;

  // Layers here are places among the MoE layers.
  int64_t layer_of(ExpertId id) const { return id / experts_per_layer; }
};

struct CacheSlot {
  ExpertId id = -1;  // -1: free
  int32_t pins = 0;  // being read, or about to be computed with

  bool evictable() const { return id >= 0 && pins == 0; }
};

// Told of everything that is asked for, whether it was there or not. Nothing allocates after
// construction.
class CachePolicy {
 public:
  virtual ~CachePolicy() = default;

  // A sweep of `rows` rows has come to MoE layer `layer`; ask() follows for each of its experts
  // with the number of rows that go to it.
  virtual void reach(int64_t layer, int64_t rows) = 0;
  virtual void ask(ExpertId id, int64_t rows) = 0;
  // The slot that is to take in `incoming` (not in any slot; there is no free one): one of the
  // evictable ones, -1 where there is none.
  virtual int64_t victim(std::span<const CacheSlot> slots, ExpertId incoming) = 0;
};

std::unique_ptr<CachePolicy> make_cache_policy(CachePolicyKind kind, const CacheShape& shape);

}  // namespace fathom
