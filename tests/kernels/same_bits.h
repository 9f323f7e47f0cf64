// What the tests of the kernels share: values to try, and equality to the bit.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/dispatch.h"

namespace fathom {

// Equal bits, where one NaN is as good as another.
inline void expect_same_bits(std::span<const float> got, std::span<const float> want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "at " << i << ": " << got[i] << " and not " << want[i];
  }
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t bits() { return engine_(); }
  int64_t below(int64_t n) { return engine_() % n; }
  float between(float low, float high) {
    return low + (high - low) * (static_cast<float>(engine_() >> 8) * 0x1p-24f);
  }
  std::vector<float> floats(int64_t count, float low, float high) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = between(low, high);
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace fathom
