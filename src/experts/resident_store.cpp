#include "experts/resident_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace fathom {

ResidentExpertStore::ResidentExpertStore(const KernelContext& context,
                                         std::vector<std::vector<GatedMlp>> experts,
                                         int64_t row_chunk)
    : context_(&context), experts_(std::move(experts)) {
  int64_t hidden = 0;
  int64_t intermediate = 0;
  for (const auto& layer : experts_) {
    for (const GatedMlp& expert : layer) {
      hidden = std::max(hidden, expert.gate.cols);
      intermediate = std::max(intermediate, expert.gate.rows);
    }
  }
  x_ = Matrix(row_chunk, hidden);
  gate_ = Matrix(row_chunk, intermediate);
  up_ = Matrix(row_chunk, intermediate);
  y_ = Matrix(row_chunk, hidden);
  stats_.place = "memory";
}

void ResidentExpertStore::run(int64_t layer, std::span<const ExpertGroup> groups,
                              Span2d<const float> x, const Deliver& deliver,
                              const CancelToken* cancel) {
  const std::vector<GatedMlp>& experts = experts_[static_cast<size_t>(layer)];
  const auto began = std::chrono::steady_clock::now();
  for (size_t g = 0; g < groups.size(); ++g) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const ExpertGroup& group = groups[g];
    const auto total = static_cast<int64_t>(group.rows.size());
    for (int64_t first = 0; first < total; first += x_.rows()) {
      const int64_t count = std::min(x_.rows(), total - first);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(x_.row(i), x.row(group.rows[static_cast<size_t>(first + i)]),
                    static_cast<size_t>(x.cols) * sizeof(float));
      }
      const Span2d<float> y = y_.view().middle_rows(0, count);
      gated_mlp(*context_, x_.view().middle_rows(0, count),
                experts[static_cast<size_t>(group.expert)], gate_, up_, y);
      deliver(static_cast<int64_t>(g), first, y);
    }
    ++stats_.hits;
  }
  stats_.compute_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace fathom
