// All experts in memory.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "experts/expert_store.h"
#include "experts/gated_mlp.h"
#include "experts/weight_loader.h"
#include "kernels/context.h"

namespace fathom {

class ResidentExpertStore : public ExpertStore {
 public:
  // experts[layer][expert]; layers without routed experts stay empty. The views' memory must
  // outlive the store. `row_chunk` rows at most are worked on at once.
  ResidentExpertStore(const KernelContext& context, std::vector<std::vector<GatedMlp>> experts,
                      int64_t row_chunk);

  void run(int64_t layer, std::span<const ExpertGroup> groups, Span2d<const float> x,
           const Deliver& deliver, const CancelToken* cancel) override;
  ExpertStats stats() const override { return stats_; }

 private:
  const KernelContext* context_;
  std::vector<std::vector<GatedMlp>> experts_;
  ExpertStats stats_;
  Matrix x_;  // gathered rows
  Matrix gate_;
  Matrix up_;
  Matrix y_;
};

}  // namespace fathom
