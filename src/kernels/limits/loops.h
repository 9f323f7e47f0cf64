// The loops, written once over the vectors of an instruction set. Internal linkage: the including
// files are compiled for different processors.
//
// What an Isa offers: Floats and Words (vectors of float and uint64_t, equally long), and
// fma(a, b, c) = a * b + c.
#pragma once

#include "kernels/limits/limits.h"

namespace fathom {
namespace {

template <typename Isa>
struct Loops {
  using Floats = typename Isa::Floats;
  using Words = typename Isa::Words;
  static constexpr int kBytes = sizeof(Floats);
  // Enough sums to cover the latency of two multiply-adds started in every cycle.
  static constexpr int kSums = 12;
  static constexpr int kReadSums = 16;

  static uint64_t read(const std::byte* from, size_t count) {
    Words sums[kReadSums] = {};
    for (size_t at = 0; at < count; at += kBytes * kReadSums) {
      const Words* words = reinterpret_cast<const Words*>(from + at);
      for (int i = 0; i < kReadSums; ++i) sums[i] ^= words[i];
    }
    Words all = sums[0];
    for (int i = 1; i < kReadSums; ++i) all ^= sums[i];
    uint64_t word = 0;
    for (int i = 0; i < kBytes / 8; ++i) word ^= all[i];
    return word;
  }

  static float multiply_add(int64_t rounds) {
    // Each sum begins differently, or the compiler would keep one of them.
    Floats sums[kSums] = {};
    for (int i = 0; i < kSums; ++i) sums[i] += static_cast<float>(i);
    const Floats a = Floats{} + 0.999f;
    const Floats b = Floats{} + 0.5f;
    for (int64_t round = 0; round < rounds; ++round) {
      for (int i = 0; i < kSums; ++i) sums[i] = Isa::fma(sums[i], a, b);
    }
    float all = 0;
    for (int i = 0; i < kSums; ++i) all += sums[i][0];
    return all;
  }

  static constexpr LimitKernels kernels = {read, multiply_add, int64_t{kSums} * (kBytes / 4) * 2};
};

}  // namespace
}  // namespace fathom
