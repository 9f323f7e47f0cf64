// The mixture of experts of one layer.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/hf_config.h"
#include "experts/expert_store.h"
#include "experts/gated_mlp.h"
#include "kernels/context.h"
#include "model/deepseek/router.h"
#include "model/deepseek/weights.h"

namespace fathom {

class Moe {
 public:
  Moe(const DeepseekConfig& config, const KernelContext& context, ExpertStore& experts);

  void reserve(int64_t rows);

  // hidden[i] += weight * expert(x[i]) for each chosen expert, in ascending order of expert. Every
  // expert is asked once for all rows of the sweep.
  void forward(const LayerWeights& w, int64_t layer, Span2d<const float> x, Span2d<float> hidden,
               const CancelToken* cancel);

 private:
  void route(const LayerWeights& w, Span2d<const float> x);

  const KernelContext* context_;
  ExpertStore* experts_;
  int64_t top_k_;
  Router router_;
  Matrix logits_;                      // [rows, n_routed_experts]
  std::vector<RouterChoice> choices_;  // [rows * top_k]
  // The choices again, by expert: counts, then the rows and weights of each group.
  std::vector<int64_t> begin_;        // [n_routed_experts + 1]
  std::vector<int32_t> group_rows_;   // [rows * top_k]
  std::vector<float> group_weights_;  // [rows * top_k]
  std::vector<ExpertGroup> groups_;   // [n_routed_experts at the most]
};

}  // namespace fathom
