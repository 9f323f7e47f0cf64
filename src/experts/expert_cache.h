// The bookkeeping of a cache of experts: which slot holds which. Knows nothing of bytes, so that
// the same code serves the store and the simulation of a recorded trace.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "experts/cache_policy.h"

namespace fathom {

// Slots of one layer that wait for the disk or for their turn at the most. Enough for the deepest
// queue; beyond it a long prompt, which asks for every expert once, would empty the whole cache.
inline constexpr int64_t kMostReadAhead = 16;

class ExpertCache {
 public:
  ExpertCache(const CacheShape& shape, std::unique_ptr<CachePolicy> policy);

  const CacheShape& shape() const { return shape_; }
  std::span<const CacheSlot> slots() const { return slots_; }
  // The expert's slot, -1 where it has none.
  int64_t find(ExpertId id) const { return slot_of_[static_cast<size_t>(id)]; }

  // See CachePolicy.
  void reach(int64_t layer, int64_t rows) { policy_->reach(layer, rows); }
  void ask(ExpertId id, int64_t rows) { policy_->ask(id, rows); }

  // A pinned slot is never taken for another expert.
  void pin(int64_t slot) { ++slots_[static_cast<size_t>(slot)].pins; }
  void unpin(int64_t slot) { --slots_[static_cast<size_t>(slot)].pins; }
  // A slot for an expert that has none, pinned once: a free one, or the policy's victim. -1 where
  // all are pinned.
  int64_t take(ExpertId id);
  // The slot becomes free, whatever its pins: what was to come did not.
  void release(int64_t slot);
  // Slots that take() could give.
  int64_t available() const;

 private:
  CacheShape shape_;
  std::unique_ptr<CachePolicy> policy_;
  std::vector<CacheSlot> slots_;
  std::vector<int32_t> slot_of_;  // [id]
  int64_t used_ = 0;
};

}  // namespace fathom
