// The noaux_tc router: which experts a token goes to, and with what weight.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fathom {

struct RouterOptions {
  int64_t n_routed_experts = 0;
  int64_t n_group = 1;
  int64_t topk_group = 1;
  int64_t num_experts_per_tok = 1;
  bool norm_topk_prob = true;
  double routed_scaling_factor = 1;
};

struct RouterChoice {
  int32_t expert = 0;
  float weight = 0;
};

// How close a choice was: the last group (expert) that was chosen against the best one that was
// not; of experts, only those within reach. Infinite where nothing was left out.
struct RouterMargins {
  float group = 0;
  float expert = 0;
};

// Works on one token at a time, with scratch of its own.
class Router {
 public:
  explicit Router(const RouterOptions& options);

  // logits [n_routed_experts] from the router's matrix; bias = e_score_correction_bias, which
  // steers the choice and never the weight. Fills `chosen` [num_experts_per_tok] in order of
  // choice, best first; ties go to the lowest index.
  // Fills `margins` too where it is not null.
  void choose(std::span<const float> logits, const float* bias, std::span<RouterChoice> chosen,
              RouterMargins* margins = nullptr);

 private:
  RouterOptions options_;
  std::vector<float> scores_;
  std::vector<float> choice_;
  std::vector<float> group_scores_;
  std::vector<char> kept_;  // groups within reach
};

}  // namespace fathom
