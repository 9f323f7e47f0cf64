#include "experts/cache_simulation.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace fathom {
namespace {

// Place of each layer among those that the trace visits; -1 for others.
std::vector<int64_t> places(const RouteTrace& trace, int64_t* count) {
  std::vector<int64_t> place(static_cast<size_t>(trace.shape.layers), -1);
  for (const RouteTrace::Visit& visit : trace.visits) place[static_cast<size_t>(visit.layer)] = 0;
  *count = 0;
  for (int64_t& p : place) {
    if (p == 0) p = (*count)++;
  }
  return place;
}

}  // namespace

CacheShape cache_shape_of(const RouteTrace& trace, int64_t slots) {
  int64_t layers = 0;
  places(trace, &layers);
  return {slots, layers, trace.shape.experts, trace.shape.experts_per_row};
}

CacheHits simulate_cache(const RouteTrace& trace, CachePolicyKind policy, int64_t slots) {
  const CacheShape shape = cache_shape_of(trace, slots);
  int64_t layers = 0;
  const std::vector<int64_t> place = places(trace, &layers);
  ExpertCache cache(shape, make_cache_policy(policy, shape));
  CacheHits result;
  std::vector<int64_t> hits;  // slots
  std::vector<ExpertId> missing;
  std::vector<int64_t> reading;  // slots
  for (const RouteTrace::Visit& visit : trace.visits) {
    const int64_t layer = place[static_cast<size_t>(visit.layer)];
    cache.reach(layer, visit.rows);
    hits.clear();
    missing.clear();
    for (const RouteTrace::Asked& asked : trace.of(visit)) {
      const auto id = static_cast<ExpertId>(layer * shape.experts_per_layer + asked.expert);
      cache.ask(id, asked.rows);
      const int64_t slot = cache.find(id);
      if (slot < 0) {
        missing.push_back(id);
      } else {
        cache.pin(slot);
        hits.push_back(slot);
      }
    }
    result.hits += hits.size();
    result.misses += missing.size();
    for (const ExpertId id : missing) {
      const auto finish_one = [&](auto& pinned) {
        cache.unpin(pinned.front());
        pinned.erase(pinned.begin());
      };
      if (static_cast<int64_t>(reading.size()) == kMostReadAhead) finish_one(reading);
      int64_t slot;
      while ((slot = cache.take(id)) < 0) {
        // What was there is computed first, then what was read, in order.
        if (!hits.empty()) {
          finish_one(hits);
        } else {
          finish_one(reading);
        }
      }
      reading.push_back(slot);
    }
    for (const int64_t slot : hits) cache.unpin(slot);
    for (const int64_t slot : reading) cache.unpin(slot);
    reading.clear();
  }
  return result;
}

CacheHits simulate_optimum(const RouteTrace& trace, int64_t slots) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  const auto experts = static_cast<size_t>(trace.shape.experts);
  const auto id = [&](const RouteTrace::Visit& visit, const RouteTrace::Asked& asked) {
    return static_cast<size_t>(visit.layer) * experts + static_cast<size_t>(asked.expert);
  };
  // The next visit that asks for the same expert, for every place of `asked`, from the end.
  std::vector<size_t> next(trace.asked.size());
  std::vector<size_t> upcoming(static_cast<size_t>(trace.shape.layers) * experts, kNever);
  for (size_t v = trace.visits.size(); v-- > 0;) {
    const RouteTrace::Visit& visit = trace.visits[v];
    for (size_t i = visit.first; i < visit.first + visit.count; ++i) {
      size_t& when = upcoming[id(visit, trace.asked[i])];
      next[i] = when;
      when = v;
    }
  }

  struct Kept {
    size_t next;
    size_t id;
  };
  CacheHits result;
  std::vector<Kept> kept;
  std::vector<char> is_kept(upcoming.size());
  for (size_t v = 0; v < trace.visits.size(); ++v) {
    const RouteTrace::Visit& visit = trace.visits[v];
    // What this visit asks for is exactly what is kept with v as its time.
    std::erase_if(kept, [&](const Kept& k) { return k.next == v; });
    for (size_t i = visit.first; i < visit.first + visit.count; ++i) {
      const size_t expert = id(visit, trace.asked[i]);
      ++(is_kept[expert] ? result.hits : result.misses);
      is_kept[expert] = next[i] != kNever;
      if (is_kept[expert]) kept.push_back({next[i], expert});
    }
    const auto most = static_cast<size_t>(slots);
    if (kept.size() <= most) continue;
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(most), kept.end(),
                     [](const Kept& a, const Kept& b) {
                       return a.next != b.next ? a.next < b.next : a.id < b.id;
                     });
    for (size_t k = most; k < kept.size(); ++k) is_kept[kept[k].id] = 0;
    kept.resize(most);
  }
  return result;
}

}  // namespace fathom
