// Which tokens may be drawn: top_k, top_p and min_p over the whole vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/sampler.h"

namespace fathom {

// A token and exp((logit - best logit) / temperature) in units of 2^-45, rounded. Weights are whole
// numbers so that their sums are exact: no result depends on the order of summation, and a prefix
// of the sorted vocabulary can be found without sorting it. 2^17 tokens of weight 2^45 fit in 64
// bits with room to spare.
struct WeightedToken {
  uint64_t weight = 0;
  float logit = 0;
  int32_t id = 0;
};

uint64_t token_weight(float logit, float best_logit, double temperature);

// The definition. Order all tokens by (logit descending, id ascending). top_k keeps the first k.
// top_p keeps the shortest prefix of those whose weights reach top_p times the weight of all of
// those. min_p keeps what has at least min_p times the best token's weight. Tokens of weight 0 are
// dropped; the best token is always kept. Returned ascending by id. `best` is argmax(logits).
std::vector<WeightedToken> keep_candidates(std::span<const float> logits, int32_t best,
                                           const SamplingOptions& options);

}  // namespace fathom
