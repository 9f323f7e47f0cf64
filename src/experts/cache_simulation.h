// How often a cache of experts would have hit, by a recorded trace; without weights.
#pragma once

#include <cstdint>

#include "experts/expert_cache.h"
#include "experts/route_trace.h"

namespace fathom {

struct CacheHits {
  uint64_t hits = 0;
  uint64_t misses = 0;
  double rate() const {
    const uint64_t all = hits + misses;
    return all == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(all);
  }
};

// The shape of a cache for the trace's model; only layers that the trace visits count.
CacheShape cache_shape_of(const RouteTrace& trace, int64_t slots);

// As the streamed store would do it: of each layer first what is there, then the others through
// slots that are won from what is left.
CacheHits simulate_cache(const RouteTrace& trace, CachePolicyKind policy, int64_t slots);

// The best that any cache of that many slots could have reached, had it known the future and might
// it let an expert pass without keeping it: after every layer it keeps what is asked for soonest.
CacheHits simulate_optimum(const RouteTrace& trace, int64_t slots);

}  // namespace fathom
