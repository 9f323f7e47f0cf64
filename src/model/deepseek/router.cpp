#include "model/deepseek/router.h"

#include <algorithm>
#include <limits>

#include "numerics/elementary.h"

namespace fathom {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Index of the largest value; the lowest index among equals. NaN never wins.
size_t largest(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best] || values[best] != values[best]) best = i;
  }
  return best;
}

}  // namespace

Router::Router(const RouterOptions& options)
    : options_(options),
      scores_(static_cast<size_t>(options.n_routed_experts)),
      choice_(static_cast<size_t>(options.n_routed_experts)),
      group_scores_(static_cast<size_t>(options.n_group)),
      kept_(static_cast<size_t>(options.n_group)) {}

void Router::choose(std::span<const float> logits, const float* bias,
                    std::span<RouterChoice> chosen, RouterMargins* margins) {
  for (size_t e = 0; e < scores_.size(); ++e) {
    scores_[e] = sigmoid_f32(logits[e]);
    choice_[e] = scores_[e] + bias[e];
  }

  // A group counts as the sum of its two best.
  const auto group_size = static_cast<size_t>(options_.n_routed_experts / options_.n_group);
  for (size_t g = 0; g < group_scores_.size(); ++g) {
    float first = kNever;
    float second = kNever;
    for (size_t i = 0; i < group_size; ++i) {
      const float value = choice_[g * group_size + i];
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    group_scores_[g] = group_size > 1 ? first + second : first;
  }

  // Experts outside the best groups are out of reach: minus infinity and not 0, because a choice
  // may be negative.
  std::fill(kept_.begin(), kept_.end(), 0);
  float last_group = 0;
  for (int64_t k = 0; k < options_.topk_group; ++k) {
    const size_t g = largest(group_scores_);
    kept_[g] = 1;
    last_group = group_scores_[g];
    group_scores_[g] = kNever;
  }
  for (size_t e = 0; e < choice_.size(); ++e) {
    if (!kept_[e / group_size]) choice_[e] = kNever;
  }

  float sum = 0;
  float last_choice = 0;
  for (RouterChoice& c : chosen) {
    const size_t e = largest(choice_);
    last_choice = choice_[e];
    c = {static_cast<int32_t>(e), scores_[e]};
    choice_[e] = kNever;
    sum += c.weight;
  }
  if (margins != nullptr) {
    // What was chosen or is out of reach stands at minus infinity by now.
    *margins = {last_group - group_scores_[largest(group_scores_)],
                last_choice - choice_[largest(choice_)]};
  }
  const auto scale = static_cast<float>(options_.routed_scaling_factor);
  for (RouterChoice& c : chosen) {
    if (options_.norm_topk_prob && options_.num_experts_per_tok > 1) c.weight /= sum + 1e-20f;
    c.weight *= scale;
  }
}

}  // namespace fathom
