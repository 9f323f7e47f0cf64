#include "sample/logprobs.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "numerics/elementary.h"
#include "sample/sampler.h"

namespace fathom {

Logprobs::Logprobs(std::span<const float> logits)
    : logits_(logits), best_(logits[static_cast<size_t>(argmax(logits))]) {
  double sum = 0;
  for (const float logit : logits) sum += exp_f64(logit - best_);
  log_sum_ = log_f64(sum);
}

double Logprobs::exact(int32_t id) const {
  if (id < 0 || static_cast<size_t>(id) >= logits_.size()) {
    fail_input("token {} is outside the vocabulary of {}", id, logits_.size());
  }
  return logits_[static_cast<size_t>(id)] - best_ - log_sum_;
}

std::vector<Logprobs::Entry> Logprobs::top(int64_t count) const {
  std::vector<int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto kept = static_cast<size_t>(std::clamp<int64_t>(count, 0, std::ssize(ids)));
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(ids.begin(), end, ids.end(), [this](int32_t a, int32_t b) {
    const float x = logits_[static_cast<size_t>(a)];
    const float y = logits_[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<Entry> entries;
  for (size_t i = 0; i < kept; ++i) entries.push_back({ids[i], of(ids[i])});
  return entries;
}

}  // namespace fathom
