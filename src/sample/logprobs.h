// What a model thought of the tokens at one position: log softmax of its logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fathom {

class Logprobs {
 public:
  // Of the model's own logits, which are read by the calls too. Error(input) as for argmax().
  explicit Logprobs(std::span<const float> logits);

  // Error(input) for an id outside the vocabulary.
  double exact(int32_t id) const;
  float of(int32_t id) const { return static_cast<float>(exact(id)); }

  struct Entry {
    int32_t id;
    float logprob;
  };
  // The `count` most probable tokens (all, where there are fewer): by logit, ties by id.
  std::vector<Entry> top(int64_t count) const;

 private:
  std::span<const float> logits_;
  double best_;
  double log_sum_;  // log of the sum of exp(logit - best), in the order of ids
};

}  // namespace fathom
