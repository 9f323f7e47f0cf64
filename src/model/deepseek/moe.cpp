#include "model/deepseek/moe.h"

#include <algorithm>

#include "kernels/linear/linear.h"

namespace fathom {
namespace {

RouterOptions router_options(const DeepseekConfig& config) {
  return {config.n_routed_experts,    config.n_group,        config.topk_group,
          config.num_experts_per_tok, config.norm_topk_prob, config.routed_scaling_factor};
}

}  // namespace

Moe::Moe(const DeepseekConfig& config, const KernelContext& context, ExpertStore& experts)
    : context_(&context),
      experts_(&experts),
      top_k_(config.num_experts_per_tok),
      router_(router_options(config)),
      begin_(static_cast<size_t>(config.n_routed_experts + 1)) {
  groups_.reserve(static_cast<size_t>(config.n_routed_experts));
}

void Moe::reserve(int64_t rows) {
  if (logits_.rows() >= rows) return;
  logits_ = Matrix(rows, static_cast<int64_t>(begin_.size()) - 1);
  const auto choices = static_cast<size_t>(rows * top_k_);
  choices_.resize(choices);
  group_rows_.resize(choices);
  group_weights_.resize(choices);
}

void Moe::forward(const LayerWeights& w, int64_t layer, Span2d<const float> x, Span2d<float> hidden,
                  const CancelToken* cancel) {
  route(w, x);
  experts_->run(
      layer, groups_, x,
      [&](int64_t group, int64_t first, Span2d<const float> y) {
        const ExpertGroup& g = groups_[static_cast<size_t>(group)];
        const int64_t offset = begin_[static_cast<size_t>(g.expert)] + first;
        for (int64_t i = 0; i < y.rows; ++i) {
          const float weight = group_weights_[static_cast<size_t>(offset + i)];
          const float* from = y.row(i);
          float* to = hidden.row(g.rows[static_cast<size_t>(first + i)]);
          for (int64_t c = 0; c < y.cols; ++c) to[c] += weight * from[c];
        }
      },
      cancel);
}

// Groups rows by expert, both ascending.
void Moe::route(const LayerWeights& w, Span2d<const float> x) {
  const int64_t n = x.rows;
  linear(*context_, x, w.router, logits_.view().middle_rows(0, n));
  std::fill(begin_.begin(), begin_.end(), 0);
  for (int64_t i = 0; i < n; ++i) {
    const std::span chosen =
        std::span(choices_).subspan(static_cast<size_t>(i * top_k_), static_cast<size_t>(top_k_));
    router_.choose(logits_.view().row_span(i), w.e_score_correction_bias, chosen);
    for (const RouterChoice& choice : chosen) ++begin_[static_cast<size_t>(choice.expert) + 1];
  }
  for (size_t e = 1; e < begin_.size(); ++e) begin_[e] += begin_[e - 1];

  // begin_[e] serves as the place of expert e's next row, and is put back afterwards.
  for (int64_t i = 0; i < n * top_k_; ++i) {
    const RouterChoice& choice = choices_[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(begin_[static_cast<size_t>(choice.expert)]++);
    group_rows_[at] = static_cast<int32_t>(i / top_k_);
    group_weights_[at] = choice.weight;
  }
  for (size_t e = begin_.size() - 1; e > 0; --e) begin_[e] = begin_[e - 1];
  begin_[0] = 0;

  groups_.clear();
  for (size_t e = 0; e + 1 < begin_.size(); ++e) {
    const auto first = static_cast<size_t>(begin_[e]);
    const auto count = static_cast<size_t>(begin_[e + 1]) - first;
    if (count == 0) continue;
    groups_.push_back({static_cast<int64_t>(e), std::span(group_rows_).subspan(first, count)});
  }
}

}  // namespace fathom
