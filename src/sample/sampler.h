// From logits to the next token.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace fathom {

// Sampling as requests ask for it. Defaults are "off"; the engine fills in generation_config.json.
struct SamplingOptions {
  double temperature = 1;         // 0: greedy; below 1e-6 counts as 0
  int64_t top_k = 0;              // <= 0: no limit
  double top_p = 1;               // the smallest prefix whose sum reaches it; 0 keeps one token
  double min_p = 0;               // keeps p >= min_p * p_max; 1 keeps the best
  double repetition_penalty = 1;  // > 0; divides positive logits, multiplies negative ones, once
                                  // per distinct token of prompt and output
  double presence_penalty = 0;    // -2..2, once per distinct token of the output
  double frequency_penalty = 0;   // -2..2, per occurrence in the output
  std::vector<std::pair<int32_t, double>> logit_bias;  // -100..100
  uint64_t seed = 0;
};

// Throws Error(usage) naming the field (as the API spells it) that is out of range or not a number.
void validate(const SamplingOptions& options);

// A random number in [0, 1) with 53 bits, a pure function: the same on every machine, and
// whatever is computed beside it.
double random_unit(uint64_t seed, uint64_t choice, uint64_t position);

// One sequence's sampler: it holds the counts that penalties need.
class Sampler {
 public:
  // `choice` is the index of this completion among n.
  Sampler(const SamplingOptions& options, uint64_t choice);

  void see_prompt(std::span<const int32_t> ids);
  void see_output(int32_t id);
  // Takes back the last output tokens (rejected drafts).
  void unsee_output(std::span<const int32_t> ids);

  // The token for `position` (its index in the sequence, prompt included). Order: bias, penalties,
  // temperature, top_k, top_p, min_p. Ties go to the lowest id. Logits that are NaN, +infinity or
  // all -infinity are an Error(input), never id 0 in silence. `logits` is scratch: it is changed.
  int32_t sample(std::span<float> logits, uint64_t position);

  // The probabilities that sample() draws from, ascending by id, without those cut off.
  struct Candidate {
    int32_t id;
    double probability;
  };
  std::vector<Candidate> distribution(std::span<float> logits) const;

  const SamplingOptions& options() const { return options_; }

 private:
  void adjust(std::span<float> logits) const;

  SamplingOptions options_;
  uint64_t choice_;
  std::unordered_map<int32_t, int64_t> output_counts_;
  std::unordered_map<int32_t, int64_t> prompt_counts_;
};

// Index of the largest value, ties to the lowest; Error(input) as for sample().
int32_t argmax(std::span<const float> logits);

}  // namespace fathom
