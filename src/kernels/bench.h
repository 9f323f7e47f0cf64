// How fast the kernels are, each beside the limit of the machine it runs on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"

namespace fathom {

struct KernelBenchResult {
  std::string kernel;  // "linear fp8_block"
  // "2048x7168": weight rows x columns; of combine those of each of 128 heads; of attention the
  // cached positions and what one holds, for 128 heads; else the columns.
  std::string shape;
  int64_t n = 1;     // rows of activations
  double value = 0;  // what was reached, in `unit`
  std::string unit;  // "GB/s" (of weights; of all that is read and written) or "GFLOP/s"
  // The nearer of the two limits at this n: reading from memory once, or multiplying.
  double limit = 0;
  std::string limit_name;  // "read bandwidth" or "FMA peak"
  double ratio = 0;        // value / limit, the median of the rounds that count
  // Share of the threads' time in which they had a processor. Far below 1 other programs took it,
  // and with several threads the numbers say little.
  double busy = 1;
};

// The limits themselves come first (kernels "read bandwidth" and "FMA peak", ratio 1). In each
// round a kernel and its limits are timed one right after the other, so that what disturbs one
// disturbs all; the quarter of the rounds that was disturbed least counts, and of it the medians.
// Times are wall times (with one thread: its processor time). Weights come from main memory: the
// matrices cycle through far more than a cache holds. `seconds_budget` is for the whole; a slow set
// takes longer, because each shape runs at least once. `only` chooses: what stands in a result's
// "kernel shape n", such as "7168x2048" or "attention"; Error(usage) where it stands in none.
std::vector<KernelBenchResult> bench_kernels(const KernelSet& set, int threads,
                                             double seconds_budget, std::string_view only = {});

}  // namespace fathom
