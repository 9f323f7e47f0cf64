// The limits of the machine, measured.
#pragma once

#include "kernels/dispatch.h"
#include "kernels/limits/limits.h"

namespace fathom {

const LimitKernels& limits_of(const KernelSet& set);

// Bytes per second of plain reading from main memory, and float32 operations per second of
// multiply-adds in registers (one is two operations), with that many threads at once: the median
// of the rounds that take about `seconds` together. Reading takes four times the largest cache of
// memory meanwhile, and at least 256 MiB where there is so much.
double measure_read_bandwidth(const KernelSet& set, int threads, double seconds);
double measure_multiply_add_peak(const KernelSet& set, int threads, double seconds);

}  // namespace fathom
