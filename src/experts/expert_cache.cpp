#include "experts/expert_cache.h"

#include <algorithm>
#include <cassert>

namespace fathom {

ExpertCache::ExpertCache(const CacheShape& shape, std::unique_ptr<CachePolicy> policy)
    : shape_(shape),
      policy_(std::move(policy)),
      slots_(static_cast<size_t>(shape.slots)),
      slot_of_(static_cast<size_t>(shape.moe_layers * shape.experts_per_layer), -1) {}

int64_t ExpertCache::take(ExpertId id) {
  assert(find(id) < 0);
  int64_t slot = -1;
  if (used_ < shape_.slots) {
    slot = std::find_if(slots_.begin(), slots_.end(), [](const CacheSlot& s) { return s.id < 0; }) -
           slots_.begin();
    ++used_;
  } else {
    slot = policy_->victim(slots_, id);
    if (slot < 0) return -1;
    assert(slots_[static_cast<size_t>(slot)].evictable());
    slot_of_[static_cast<size_t>(slots_[static_cast<size_t>(slot)].id)] = -1;
  }
  slots_[static_cast<size_t>(slot)] = {id, 1};
  slot_of_[static_cast<size_t>(id)] = static_cast<int32_t>(slot);
  return slot;
}

void ExpertCache::release(int64_t slot) {
  CacheSlot& s = slots_[static_cast<size_t>(slot)];
  assert(s.id >= 0);
  slot_of_[static_cast<size_t>(s.id)] = -1;
  s = {};
  --used_;
}

int64_t ExpertCache::available() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const CacheSlot& s) { return s.id < 0 || s.pins == 0; });
}

}  // namespace fathom
