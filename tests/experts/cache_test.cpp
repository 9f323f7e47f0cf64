#include <gtest/gtest.h>

#include <random>

#include "experts/cache_simulation.h"
#include "experts/expert_cache.h"
#include "tests/checkpoint/toy.h"

namespace fathom {
namespace {

constexpr CacheShape kShape{4, 2, 8, 2};

ExpertCache cache_of(CachePolicyKind kind, CacheShape shape = kShape) {
  return ExpertCache(shape, make_cache_policy(kind, shape));
}

// A layer asks for experts, each of which is there afterwards.
void visit(ExpertCache& cache, int64_t layer, const std::vector<ExpertId>& ids) {
  cache.reach(layer, 1);
  for (const ExpertId id : ids) cache.ask(id, 1);
  for (const ExpertId id : ids) {
    if (cache.find(id) < 0) cache.unpin(cache.take(id));
  }
}

// Decoding: every token visits all layers and asks `each` experts of them. Some are popular, and a
// share of what the last token asked for is asked for again.
RouteTrace decode_trace(int64_t layers, int64_t experts, int64_t each, int tokens, uint32_t seed,
                        double again = 0.25) {
  RouteTrace trace;
  trace.shape = {layers + 1, experts, each};
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> chance;
  std::vector<std::vector<int32_t>> last(static_cast<size_t>(layers));
  for (int t = 0; t < tokens; ++t) {
    for (int32_t l = 0; l < layers; ++l) {
      std::vector<int32_t> chosen;
      for (const int32_t e : last[static_cast<size_t>(l)]) {
        if (chance(random) < again) chosen.push_back(e);
      }
      while (static_cast<int64_t>(chosen.size()) < each) {
        // The square of a uniform number prefers low indices, another set in each layer.
        const double u = chance(random);
        const auto e = static_cast<int32_t>(
            (static_cast<int64_t>(u * u * static_cast<double>(experts)) + 5 * l) % experts);
        if (std::find(chosen.begin(), chosen.end(), e) == chosen.end()) chosen.push_back(e);
      }
      std::sort(chosen.begin(), chosen.end());
      last[static_cast<size_t>(l)] = chosen;
      RouteTrace::Visit visit{l + 1, 1, trace.asked.size(), chosen.size()};
      for (const int32_t e : chosen) trace.asked.push_back({e, 1});
      trace.visits.push_back(visit);
    }
  }
  return trace;
}

TEST(ExpertCache, FreeSlotsFirstThenTheVictimNeverThePinned) {
  ExpertCache cache = cache_of(CachePolicyKind::lru);
  visit(cache, 0, {0, 1});
  visit(cache, 1, {8, 9});
  EXPECT_EQ(cache.available(), 4);
  for (const ExpertId id : {0, 1, 8, 9}) EXPECT_GE(cache.find(id), 0);
  const int64_t oldest = cache.find(0);
  cache.pin(oldest);
  const int64_t second = cache.find(1);
  EXPECT_EQ(cache.take(2), second);  // 0 is older, but pinned
  EXPECT_EQ(cache.find(1), -1);
  EXPECT_EQ(cache.available(), 2);
  cache.pin(cache.find(8));
  cache.pin(cache.find(9));
  EXPECT_EQ(cache.take(3), -1);
  cache.release(second);
  EXPECT_EQ(cache.find(2), -1);
  EXPECT_EQ(cache.take(3), second);
}

TEST(CachePolicy, LruForgetsTheOldest) {
  ExpertCache cache = cache_of(CachePolicyKind::lru);
  visit(cache, 0, {0, 1});
  visit(cache, 1, {8, 9});
  visit(cache, 0, {0, 2});
  EXPECT_EQ(cache.find(1), -1);
  EXPECT_GE(cache.find(0), 0);
}

TEST(CachePolicy, LfuKeepsThePopularAndForgetsOldFame) {
  ExpertCache cache = cache_of(CachePolicyKind::lfu);
  for (int i = 0; i < 5; ++i) visit(cache, 0, {0});
  visit(cache, 0, {1});
  visit(cache, 0, {2});
  visit(cache, 0, {3});
  visit(cache, 0, {4});
  EXPECT_GE(cache.find(0), 0);
  EXPECT_EQ(cache.find(1), -1);  // the oldest of those that were asked for once
  for (int i = 0; i < 400; ++i) visit(cache, 0, {4, 5, 6});
  visit(cache, 0, {7});
  EXPECT_EQ(cache.find(0), -1);
}

TEST(CachePolicy, ForecastKeepsWhatComesSoonest) {
  // Two slots, a circle of four layers, one expert each, always the same: LRU never hits; two
  // that stay hit always.
  const CacheShape shape{2, 4, 8, 1};
  for (const auto& [kind, most_misses] :
       {std::pair{CachePolicyKind::lru, 400}, {CachePolicyKind::forecast, 304}}) {
    ExpertCache cache = cache_of(kind, shape);
    int misses = 0;
    for (int token = 0; token < 100; ++token) {
      for (int layer = 0; layer < 4; ++layer) {
        const auto id = static_cast<ExpertId>(layer * 8 + 3);
        misses += cache.find(id) < 0;
        visit(cache, layer, {id});
      }
    }
    EXPECT_LE(misses, most_misses);
    EXPECT_EQ(misses == 400, kind == CachePolicyKind::lru);
  }
}

TEST(CachePolicy, LayersGivesSomeLayersAllTheyAsk) {
  // Six slots: two for passing through, two layers of four keep their pair.
  const CacheShape shape{6, 4, 8, 2};
  ExpertCache cache = cache_of(CachePolicyKind::layers, shape);
  int misses = 0;
  for (int token = 0; token < 100; ++token) {
    for (int layer = 0; layer < 4; ++layer) {
      const auto first = static_cast<ExpertId>(layer * 8);
      if (token >= 2) misses += (cache.find(first) < 0) + (cache.find(first + 1) < 0);
      visit(cache, layer, {first, first + 1});
    }
  }
  EXPECT_EQ(misses, 98 * 4);
}

TEST(CachePolicy, NamesAreReadBack) {
  for (const CachePolicyKind kind : all_cache_policies()) {
    EXPECT_EQ(cache_policy_named(cache_policy_name(kind)), kind);
  }
  expect_contains(error_of([] { cache_policy_named("random"); }, ErrorKind::usage), {"random"});
}

TEST(CacheSimulation, NoPolicyBeatsTheOptimum) {
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    const int64_t layers = 1 + static_cast<int64_t>(random() % 6);
    const int64_t each = 1 + static_cast<int64_t>(random() % 4);
    const RouteTrace trace = decode_trace(layers, 16, each, 60, random(), 0.1 * (round % 5));
    for (const int64_t slots : {2, 3, 5, 8, 20, 200}) {
      const CacheHits best = simulate_optimum(trace, slots);
      EXPECT_EQ(best.hits + best.misses, trace.asked.size());
      for (const CachePolicyKind kind : all_cache_policies()) {
        const CacheHits hits = simulate_cache(trace, kind, slots);
        EXPECT_EQ(hits.hits + hits.misses, trace.asked.size());
        EXPECT_GE(best.hits, hits.hits) << cache_policy_name(kind) << ", " << slots << " slots";
        // With room for all, each expert is read once whatever the policy.
        EXPECT_TRUE(slots < 200 || hits.hits == best.hits);
      }
    }
  }
}

TEST(CacheSimulation, TheOptimumOfASmallTraceByHand) {
  RouteTrace trace;
  trace.shape = {1, 8, 1};
  for (const int32_t e : {0, 1, 2, 0, 1, 2}) {
    trace.visits.push_back({0, 1, trace.asked.size(), 1});
    trace.asked.push_back({e, 1});
  }
  // Two slots keep 0 and 1 while 2 passes; one keeps 0.
  EXPECT_EQ(simulate_optimum(trace, 2).hits, 2u);
  EXPECT_EQ(simulate_optimum(trace, 1).hits, 1u);
  EXPECT_EQ(simulate_optimum(trace, 0).hits, 0u);
  EXPECT_EQ(simulate_optimum(trace, 3).hits, 3u);
}

TEST(CacheSimulation, TheDefaultIsTheBestForDecodingWithFewSlots) {
  for (const uint32_t seed : {1u, 2u}) {
    const RouteTrace trace = decode_trace(24, 64, 4, 160, seed);
    for (const int64_t slots : {16, 32, 60}) {
      const double forecast = simulate_cache(trace, CachePolicyKind::forecast, slots).rate();
      for (const CachePolicyKind kind : all_cache_policies()) {
        EXPECT_GE(forecast, simulate_cache(trace, kind, slots).rate())
            << cache_policy_name(kind) << ", " << slots << " slots";
      }
      EXPECT_LT(simulate_cache(trace, CachePolicyKind::lru, slots).rate(), 0.01);
      EXPECT_GT(forecast, 0.02);
    }
  }
}

}  // namespace
}  // namespace fathom
