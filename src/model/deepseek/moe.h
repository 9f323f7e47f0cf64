// The mixture of experts of one layer.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/hf_config.h"
#include "experts/expert_store.h"
#include "experts/gated_mlp.h"
#include "experts/route_trace.h"
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

  // Rows up to which a guess at the next layer's experts is made: many rows ask for most experts
  // anyway.
  static constexpr int64_t kMostGuessRows = 8;
  bool wants_guess(int64_t rows) const {
    return rows <= kMostGuessRows && experts_->wants_lookahead();
  }
  // Tells the store which experts `layer` will probably ask for, by its router on x, a guess at the
  // layer's normed input.
  void guess(const LayerWeights& w, int64_t layer, Span2d<const float> x);

  // Hears of every choice from here on; nullptr for nobody.
  void set_route_sink(RouteSink* sink) { sink_ = sink; }

 private:
  void route(const LayerWeights& w, int64_t layer, Span2d<const float> x);
  void choose(const LayerWeights& w, int64_t row, RouterMargins* margins);

  const KernelContext* context_;
  ExpertStore* experts_;
  int64_t top_k_;
  Router router_;
  RouteSink* sink_ = nullptr;
  Matrix logits_;                      // [rows, n_routed_experts]
  std::vector<RouterChoice> choices_;  // [rows * top_k]
  // The choices again, by expert: counts, then the rows and weights of each group.
  std::vector<int64_t> begin_;        // [n_routed_experts + 1]
  std::vector<int32_t> group_rows_;   // [rows * top_k]
  std::vector<float> group_weights_;  // [rows * top_k]
  std::vector<ExpertGroup> groups_;   // [n_routed_experts at the most]
  std::vector<int32_t> list_;         // experts of a guess, or of a row for the sink
  std::vector<char> listed_;          // [n_routed_experts]
};

}  // namespace fathom
