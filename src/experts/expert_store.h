// Routed experts, wherever they live. A store is asked to compute, not to hand out pointers: rows
// travel to the weights, so that memory, a disk or another machine can be behind the same
// interface.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/cancel.h"
#include "base/span2d.h"

namespace fathom {

// The rows of X that one expert works on, ascending.
struct ExpertGroup {
  int64_t expert = 0;
  std::span<const int32_t> rows;
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
};

}  // namespace fathom
