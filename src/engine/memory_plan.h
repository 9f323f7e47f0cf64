// How the memory that the process may take is divided, decided before anything is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/footprint.h"
#include "checkpoint/model_config.h"
#include "experts/expert_layout.h"
#include "fathom/model.h"

namespace fathom {

// What the process takes beside weights, caches and scratch: code, the tokenizer, file tables, the
// allocator's and the threads' own memory.
constexpr uint64_t kProcessOverhead = uint64_t{48} << 20;
// Rows worked on at once inside a layer: enough for the matrix kernels to reach their rate, and
// about 0.8 MB of scratch each at R1's width.
constexpr int64_t kDefaultRowChunk = 128;

// What a model's passes take, by its config: floats of each row.
struct MemoryShape {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t sweep_floats = 0;    // from the first layer to the last
  int64_t scratch_floats = 0;  // while the row is worked on inside a layer
};
MemoryShape memory_shape_of(const DeepseekConfig& config);
MemoryShape memory_shape_of(const DenseConfig& config);

struct MemoryNeeds {
  MemoryShape shape;
  Footprint footprint;
  bool mtp = false;           // the MTP layer is loaded
  bool mtp_own_head = false;  // its head differs from the main one
  bool mtp_own_embedding = false;
  bool tied = false;       // head and embedding are one tensor
  bool int8_head = false;  // made 8 bits at load
  bool int8_embedding = false;
  bool quantisable_layers = false;  // --weights would make them smaller
  uint64_t slot_bytes = 0;          // memory of one streamed expert
  uint64_t store_scratch = 0;       // what a store of streamed experts takes besides its slots
  uint64_t most_slots = 0;          // 0: as many as fit
  uint64_t experts = 0;             // routed experts in all
  uint64_t kv_bytes_per_token = 0;
  int64_t context = 0;
  int64_t sequences = 1;  // that may be at full length at once
  int64_t row_chunk = 0;
  int64_t prefill_chunk = 0;  // 0: to be decided
  int threads = 1;
  uint64_t scratch_per_thread = 0;
};

// What streaming the experts of `layout` would take, within `budget` bytes; row_chunk is set
// before.
void set_expert_needs(const ExpertLayout& layout, uint64_t budget, MemoryNeeds* needs);

struct MemoryBudget {
  uint64_t bytes = 0;
  std::string reason;  // "--ram 20 GiB", "of 23.1 GiB available, 1 GiB is left to others"
};
// `asked` is --ram (0: not given).
MemoryBudget decide_budget(uint64_t asked, uint64_t available);

struct MemoryPlan {
  MemoryBudget budget;
  std::vector<MemoryShare> shares;  // what must be there, then the experts
  ExpertsPlace experts = ExpertsPlace::memory;
  bool embedding_on_disk = false;
  uint64_t cache_bytes = 0;   // for experts that are streamed
  int64_t prefill_chunk = 0;  // tokens of a prompt that one sweep may hold
  int64_t kv_pages = 0;
  uint64_t needed() const;  // sum of the shares
};

// Error(input) with a table of what is needed and what to change, where the budget does not do.
// `place` is --experts: memory or disk force the one or the other.
MemoryPlan plan_memory(const MemoryNeeds& needs, const MemoryBudget& budget, ExpertsPlace place,
                       const std::string& folder);

}  // namespace fathom
