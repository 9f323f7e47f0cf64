// Routed experts, wherever they live. A store is asked to compute, not to hand out pointers: rows
// travel to the weights, so that memory, a disk or another machine can be behind the same
// interface.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/cancel.h"
#include "base/span2d.h"

namespace fathom {

// The rows of X that one expert works on, ascending.
struct ExpertGroup {
  int64_t expert = 0;
  std::span<const int32_t> rows;
};

// What a store has done so far. Bytes and seconds are sums since it was made.
struct ExpertStats {
  std::string place;        // "memory", "disk: io_uring, O_DIRECT, ..."
  uint64_t slots = 0;       // experts that fit into its memory; 0 where all are always there
  uint64_t slot_bytes = 0;  // memory of all slots
  std::string policy;       // "lru", ...; empty where nothing is ever evicted
  uint64_t hits = 0;        // groups whose expert was in memory (a lookahead read in time counts)
  uint64_t misses = 0;      // groups that had to read
  uint64_t bytes_read = 0;  // weights, from disk, demand and lookahead
  uint64_t lookahead_reads = 0;  // experts read ahead
  uint64_t lookahead_used = 0;   // of them, asked for afterwards while still there
  bool lookahead = false;        // on at the moment
  uint64_t retries = 0;
  double disk_seconds = 0;     // wall time during which a demand read was outstanding
  double wait_seconds = 0;     // of it, with nothing to compute
  double compute_seconds = 0;  // in the experts' products
};

class ExpertStore {
 public:
  // Rows of groups[group], from groups[group].rows[first] on, y.rows of them, are done:
  // y[i] = expert(x[rows[first + i]]), unweighted. y is only valid during the call.
  using Deliver = std::function<void(int64_t group, int64_t first, Span2d<const float> y)>;

  virtual ~ExpertStore() = default;

  // Computes every group of `layer`. Groups come in ascending order of expert and are delivered in
  // that order (parts of one group in ascending order of row), on the calling thread, whatever
  // order their weights arrive in. A cancelled run throws Error(cancelled) between experts.
  virtual void run(int64_t layer, std::span<const ExpertGroup> groups, Span2d<const float> x,
                   const Deliver& deliver, const CancelToken* cancel) = 0;

  // True where it helps to tell it early which experts the next layer will probably need.
  virtual bool wants_lookahead() const { return false; }
  // `experts` of `layer` will probably be asked for next, likeliest first. Never waits, never
  // changes results.
  virtual void look_ahead(int64_t layer, std::span<const int32_t> experts) {
    (void)layer;
    (void)experts;
  }

  virtual ExpertStats stats() const = 0;
};

}  // namespace fathom
