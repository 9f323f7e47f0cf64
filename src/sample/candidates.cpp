#include "sample/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace fathom {
namespace {

constexpr double kLeastExponent = -32;  // exp of it is less than half a unit

// exp(x) in units of 2^-45 for x in [-32, 0]. Thousands of them are needed for one token, and 45
// bits of them: a polynomial of plain products and sums, which a compiler may run in any number of
// lanes, does for that. x = n ln 2 + r, and 2^n goes straight into the exponent's bits.
uint64_t exp_units(double x) {
  constexpr double kRound = 0x1.8p52;
  const double shifted = x * 0x1.71547652b82fep+0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;  // ln 2 in two parts
  double q = 1.0 / 479001600;
  q = q * r + 1.0 / 39916800;
  q = q * r + 1.0 / 3628800;
  q = q * r + 1.0 / 362880;
  q = q * r + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  q = q * r + 1.0;
  q = q * r + 1.0;
  const uint64_t power = (std::bit_cast<uint64_t>(shifted) + 1023 + 45) << 52;
  const double units = q * std::bit_cast<double>(power) + 0x1p52;  // rounds to a whole number
  return std::bit_cast<uint64_t>(units) & 0x000fffffffffffffu;
}

bool ranks_before(const WeightedToken& a, const WeightedToken& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

uint64_t sum_of(std::span<const WeightedToken> tokens) {
  uint64_t sum = 0;
  for (const WeightedToken& token : tokens) sum += token.weight;
  return sum;
}

// Tokens with a weight, ascending by id; the weights come later, when top_k has made them fewer.
std::vector<WeightedToken> tokens_in_reach(std::span<const float> logits, float best_logit,
                                           double temperature) {
  std::vector<WeightedToken> tokens;
  tokens.reserve(logits.size());
  // Wider than the weights' reach by more than float's rounding, so nothing with a weight is lost.
  const double reach = kLeastExponent * 1.001 * temperature;
  const auto least = static_cast<float>(best_logit + reach - 1e-6 * std::abs(best_logit));
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) tokens.push_back({0, logits[i], static_cast<int32_t>(i)});
  }
  return tokens;
}

// token_weight() of all, in blocks that lie in a row so that lanes can be filled.
void weigh(std::vector<WeightedToken>& tokens, float best_logit, double temperature) {
  constexpr size_t kBlock = 256;
  std::array<double, kBlock> x{};
  std::array<uint64_t, kBlock> weights{};
  for (size_t begin = 0; begin < tokens.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, tokens.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      x[i] = (static_cast<double>(tokens[begin + i].logit) - best_logit) / temperature;
    }
    for (size_t i = 0; i < kBlock; ++i) {
      weights[i] = exp_units(x[i] < kLeastExponent ? kLeastExponent : x[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      tokens[begin + i].weight = x[i] < kLeastExponent ? 0 : weights[i];
    }
  }
}

void keep_top_k(std::vector<WeightedToken>& tokens, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(tokens.size())) return;
  std::vector<WeightedToken> ranked = tokens;
  std::nth_element(ranked.begin(), ranked.begin() + (k - 1), ranked.end(), ranks_before);
  const WeightedToken last = ranked[static_cast<size_t>(k - 1)];
  std::erase_if(tokens, [&](const WeightedToken& token) { return ranks_before(last, token); });
}

// Ids ascend here, and equal logits rank by id: then no selection is needed.
bool all_tie(const std::vector<WeightedToken>& tokens) {
  return std::all_of(tokens.begin(), tokens.end(), [&](const WeightedToken& token) {
    return token.logit == tokens.front().logit;
  });
}

// The token at which the weights of `tokens`, taken in order of rank, first reach `goal`.
WeightedToken where_sum_reaches(std::vector<WeightedToken> tokens, uint64_t goal) {
  if (all_tie(tokens)) {
    auto at = tokens.begin();
    for (; at + 1 != tokens.end() && at->weight < goal; ++at) goal -= at->weight;
    return *at;
  }
  auto begin = tokens.begin();
  auto end = tokens.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, ranks_before);
    const uint64_t before = sum_of({begin, middle});
    if (before >= goal) {
      end = middle;
    } else {
      goal -= before;
      begin = middle;
    }
  }
  return *begin;
}

// Weights fall with rank, so classes of weight are stretches of the order: only the class in which
// the sum is reached has to be looked at token by token.
class WeightClasses {
 public:
  explicit WeightClasses(std::span<const WeightedToken> tokens) {
    for (const WeightedToken& token : tokens) sums_[class_of(token.weight)] += token.weight;
  }

  // Quarters of powers of two, from the heaviest.
  static size_t class_of(uint64_t weight) {
    const int bits = 64 - __builtin_clzll(weight | 1);
    const uint64_t quarter = bits >= 3 ? (weight >> (bits - 3)) & 3 : 0;
    return static_cast<size_t>(4 * (64 - bits)) + (3 - static_cast<size_t>(quarter));
  }

  // The class in which the running sum reaches `goal`; `goal` becomes what is left of it there.
  size_t find(uint64_t& goal) const {
    size_t at = 0;
    while (at + 1 < sums_.size() && sums_[at] < goal) goal -= sums_[at++];
    return at;
  }

 private:
  std::array<uint64_t, 4 * 65> sums_{};
};

void keep_top_p(std::vector<WeightedToken>& tokens, double top_p) {
  const uint64_t total = sum_of(tokens);
  const double exact_goal = std::ceil(top_p * static_cast<double>(total));
  uint64_t goal = std::clamp<uint64_t>(static_cast<uint64_t>(exact_goal), 1, total);
  const WeightClasses classes(tokens);
  const size_t last_class = classes.find(goal);
  std::vector<WeightedToken> members;
  for (const WeightedToken& token : tokens) {
    if (WeightClasses::class_of(token.weight) == last_class) members.push_back(token);
  }
  const WeightedToken last = where_sum_reaches(std::move(members), goal);
  std::erase_if(tokens, [&](const WeightedToken& token) { return ranks_before(last, token); });
}

}  // namespace

uint64_t token_weight(float logit, float best_logit, double temperature) {
  const double x = (static_cast<double>(logit) - best_logit) / temperature;
  return x < kLeastExponent ? 0 : exp_units(x);
}

std::vector<WeightedToken> keep_candidates(std::span<const float> logits, int32_t best,
                                           const SamplingOptions& options) {
  const float best_logit = logits[static_cast<size_t>(best)];
  std::vector<WeightedToken> tokens = tokens_in_reach(logits, best_logit, options.temperature);
  keep_top_k(tokens, options.top_k);
  weigh(tokens, best_logit, options.temperature);
  std::erase_if(tokens, [](const WeightedToken& token) { return token.weight == 0; });
  if (options.top_p < 1) keep_top_p(tokens, options.top_p);
  const double least = options.min_p * 0x1p45;
  std::erase_if(tokens, [&](const WeightedToken& token) {
    return static_cast<double>(token.weight) < least && token.id != best;
  });
  return tokens;
}

}  // namespace fathom
