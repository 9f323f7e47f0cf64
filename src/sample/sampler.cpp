#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "sample/candidates.h"

namespace fathom {
namespace {

constexpr double kGreedyBelow = 1e-6;

void check_range(double value, double low, double high, const char* field) {
  if (!(value >= low && value <= high)) {
    fail_usage("{}: {} is not between {} and {}", field, value, low, high);
  }
}

}  // namespace

void validate(const SamplingOptions& options) {
  check_range(options.temperature, 0, 2, "temperature");
  check_range(options.top_p, 0, 1, "top_p");
  check_range(options.min_p, 0, 1, "min_p");
  check_range(options.presence_penalty, -2, 2, "presence_penalty");
  check_range(options.frequency_penalty, -2, 2, "frequency_penalty");
  if (!(options.repetition_penalty > 0) || !std::isfinite(options.repetition_penalty)) {
    fail_usage("repetition_penalty: {} is not a number above 0", options.repetition_penalty);
  }
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0) fail_usage("logit_bias: {} is not a token id", id);
    if (!(bias >= -100 && bias <= 100)) {
      fail_usage("logit_bias: {} for token {} is not between -100 and 100", bias, id);
    }
  }
}

Sampler::Sampler(const SamplingOptions& options, uint64_t choice)
    : options_(options), choice_(choice) {
  validate(options);
}

void Sampler::see_prompt(std::span<const int32_t> ids) {
  for (int32_t id : ids) ++prompt_counts_[id];
}

void Sampler::see_output(int32_t id) { ++output_counts_[id]; }

void Sampler::unsee_output(std::span<const int32_t> ids) {
  for (int32_t id : ids) {
    const auto found = output_counts_.find(id);
    if (found != output_counts_.end() && --found->second == 0) output_counts_.erase(found);
  }
}

void Sampler::adjust(std::span<float> logits) const {
  const auto size = static_cast<int64_t>(logits.size());
  for (const auto& [id, bias] : options_.logit_bias) {
    if (id >= size) fail_usage("logit_bias: token {} is outside the vocabulary of {}", id, size);
    logits[id] = static_cast<float>(logits[id] + bias);
  }
  // Each id is changed once and by itself, so the order of the maps does not matter. Ids outside
  // the logits (a prompt's padding rows) have nothing to penalise.
  if (options_.repetition_penalty != 1) {
    const auto penalise = [&](int32_t id) {
      if (id < 0 || id >= size) return;
      const double logit = logits[id];
      logits[id] = static_cast<float>(logit > 0 ? logit / options_.repetition_penalty
                                                : logit * options_.repetition_penalty);
    };
    for (const auto& [id, count] : output_counts_) penalise(id);
    for (const auto& [id, count] : prompt_counts_) {
      if (!output_counts_.contains(id)) penalise(id);
    }
  }
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0) {
    for (const auto& [id, count] : output_counts_) {
      if (id < 0 || id >= size) continue;
      logits[id] = static_cast<float>(logits[id] - options_.presence_penalty -
                                      options_.frequency_penalty * static_cast<double>(count));
    }
  }
}

std::vector<Sampler::Candidate> Sampler::distribution(std::span<float> logits) const {
  adjust(logits);
  const int32_t best = argmax(logits);
  if (options_.temperature < kGreedyBelow || options_.min_p == 1) return {{best, 1.0}};
  const std::vector<WeightedToken> kept = keep_candidates(logits, best, options_);
  uint64_t sum = 0;
  for (const WeightedToken& token : kept) sum += token.weight;
  std::vector<Candidate> candidates;
  candidates.reserve(kept.size());
  for (const WeightedToken& token : kept) {
    candidates.push_back({token.id, static_cast<double>(token.weight) / static_cast<double>(sum)});
  }
  return candidates;
}

int32_t Sampler::sample(std::span<float> logits, uint64_t position) {
  adjust(logits);
  const int32_t best = argmax(logits);
  if (options_.temperature < kGreedyBelow || options_.min_p == 1) return best;
  const std::vector<WeightedToken> kept = keep_candidates(logits, best, options_);
  uint64_t left = 0;
  for (const WeightedToken& token : kept) left += token.weight;
  // A whole number below the sum: the token whose stretch of it holds that number is drawn.
  auto target = static_cast<uint64_t>(random_unit(options_.seed, choice_, position) *
                                      static_cast<double>(left));
  for (const WeightedToken& token : kept) {
    if (target < token.weight) return token.id;
    target -= token.weight;
  }
  return kept.back().id;  // only where the product was rounded up to the sum itself
}

int32_t argmax(std::span<const float> logits) {
  if (logits.empty()) fail_input("there are no logits to choose from");
  float best = -std::numeric_limits<float>::infinity();
  int32_t best_id = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit)) fail_input("the logit of token {} is not a number", i);
    if (logit > best) {
      best = logit;
      best_id = static_cast<int32_t>(i);
    }
  }
  if (best_id < 0) fail_input("all {} logits are -infinity", logits.size());
  if (std::isinf(best)) fail_input("the logit of token {} is +infinity", best_id);
  return best_id;
}

}  // namespace fathom
