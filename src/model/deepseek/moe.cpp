#include "model/deepseek/moe.h"

#include <algorithm>
#include <utility>

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
      begin_(static_cast<size_t>(config.n_routed_experts + 1)),
      listed_(static_cast<size_t>(config.n_routed_experts)) {
  groups_.reserve(static_cast<size_t>(config.n_routed_experts));
  list_.reserve(static_cast<size_t>(std::max(config.n_routed_experts, kMostGuessRows * top_k_)));
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
  route(w, layer, x);
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

void Moe::choose(const LayerWeights& w, int64_t row, RouterMargins* margins) {
  router_.choose(
      logits_.view().row_span(row), w.e_score_correction_bias,
      std::span(choices_).subspan(static_cast<size_t>(row * top_k_), static_cast<size_t>(top_k_)),
      margins);
}

void Moe::guess(const LayerWeights& w, int64_t layer, Span2d<const float> x) {
  linear(*context_, x, w.router, logits_.view().middle_rows(0, x.rows));
  for (int64_t i = 0; i < x.rows; ++i) choose(w, i, nullptr);
  // Every row's first choice goes before any row's second.
  list_.clear();
  for (int64_t k = 0; k < top_k_; ++k) {
    for (int64_t i = 0; i < x.rows; ++i) {
      const int32_t expert = choices_[static_cast<size_t>(i * top_k_ + k)].expert;
      if (std::exchange(listed_[static_cast<size_t>(expert)], 1) == 0) list_.push_back(expert);
    }
  }
  for (const int32_t expert : list_) listed_[static_cast<size_t>(expert)] = 0;
  experts_->look_ahead(layer, list_);
}

// Groups rows by expert, both ascending.
void Moe::route(const LayerWeights& w, int64_t layer, Span2d<const float> x) {
  const int64_t n = x.rows;
  linear(*context_, x, w.router, logits_.view().middle_rows(0, n));
  if (sink_ != nullptr) sink_->begin(layer, n);
  std::fill(begin_.begin(), begin_.end(), 0);
  for (int64_t i = 0; i < n; ++i) {
    RouterMargins margins;
    choose(w, i, sink_ != nullptr ? &margins : nullptr);
    list_.clear();
    for (int64_t k = 0; k < top_k_; ++k) {
      const int32_t expert = choices_[static_cast<size_t>(i * top_k_ + k)].expert;
      ++begin_[static_cast<size_t>(expert) + 1];
      list_.push_back(expert);
    }
    if (sink_ != nullptr) sink_->row({list_, margins.group, margins.expert});
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
