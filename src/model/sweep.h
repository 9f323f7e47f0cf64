// The unit of work: rows of any sequences on their way through the layers.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "cache/kv_cache.h"

namespace fathom {

// One token of one sequence.
struct SweepRow {
  int32_t token = 0;
  int64_t position = 0;  // what RoPE sees
  int64_t index = 0;     // place in the sequence's cache, 0-based
  KvSequence* cache = nullptr;
  bool wants_logits = false;
};

// Prefill, decoding of many sequences and verification of drafts are all sweeps. A model takes a
// sweep through one layer at a time, so whoever drives it may pause, cancel or add sweeps between
// layers. Rows are independent: what else is in a sweep never changes a row's bits. Rows of one
// sequence stand together, in ascending index; the cache was prepared for them.
struct Sweep {
  std::vector<SweepRow> rows;
  int64_t next_layer = 0;
  Matrix hidden;  // [rows, hidden_size]: the residual stream

  Matrix normed;  // the same shape: what attention and the MLP see of it
  Matrix angles;  // [rows, ...]: of RoPE, where a decoder keeps them from layer to layer

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

}  // namespace fathom
