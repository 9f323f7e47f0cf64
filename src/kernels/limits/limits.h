// What the processor could do at most: loops that only read, or only multiply and add. Benchmarks
// set a kernel's speed beside them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom {

struct LimitKernels {
  // Reads `count` bytes (a multiple of 1024, from a cache line on) and returns a value that needs
  // all of them.
  uint64_t (*read)(const std::byte* from, size_t count);
  // `rounds` rounds of independent float32 fused multiply-adds, in registers alone.
  float (*multiply_add)(int64_t rounds);
  int64_t operations_per_round;  // a fused multiply-add is two
};

extern const LimitKernels limits_reference;
extern const LimitKernels limits_avx2;
extern const LimitKernels limits_avx512;
extern const LimitKernels limits_neon;

}  // namespace fathom
