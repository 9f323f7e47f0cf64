#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "sample/sampler.h"

namespace fathom {
namespace {

// 16 cells, as many draws as `draws`; the chi-square of 15 degrees of freedom is below 44.3 except
// once in 10,000 times, and the draws are fixed.
template <typename Draw>
double chi_square(int draws, const Draw& draw) {
  std::array<int, 16> counts{};
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(draw(i) * 16)];
  const double expected = draws / 16.0;
  double sum = 0;
  for (int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(RandomUnit, NeverChanges) {
  EXPECT_EQ(random_unit(0, 0, 0), 0x1.0318dffb33ffp-2);
  EXPECT_EQ(random_unit(7, 0, 1), 0x1.857da1a8abccep-1);
  EXPECT_EQ(random_unit(7, 1, 0), 0x1.2bdedc84127c7p-1);
  EXPECT_EQ(random_unit(~uint64_t{0}, 3, 163839), 0x1.d166f5d08e22p-2);
}

TEST(RandomUnit, StaysBelowOneAndNotBelowZero) {
  for (uint64_t i = 0; i < 100000; ++i) {
    const double value = random_unit(i, i * 7, i * i);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
  }
}

TEST(RandomUnit, IsUniformAlongEachNumber) {
  EXPECT_LT(chi_square(160000, [](int i) { return random_unit(i, 0, 0); }), 44.3);
  EXPECT_LT(chi_square(160000, [](int i) { return random_unit(5, i, 0); }), 44.3);
  EXPECT_LT(chi_square(160000, [](int i) { return random_unit(5, 0, i); }), 44.3);
  // Neighbouring sequences: the difference of two uniform numbers, modulo 1, is uniform too.
  EXPECT_LT(chi_square(160000,
                       [](int i) {
                         const double d = random_unit(5, 0, i) - random_unit(6, 0, i);
                         return d < 0 ? d + 1 : d;
                       }),
            44.3);
}

TEST(RandomUnit, ItsLowBitsAreUniformToo) {
  EXPECT_LT(chi_square(160000,
                       [](int i) {
                         const double scaled = random_unit(1, 2, i) * 0x1p40;
                         return scaled - std::floor(scaled);
                       }),
            44.3);
}

TEST(RandomUnit, NoNumberCanStandForAnother) {
  EXPECT_NE(random_unit(1, 2, 3), random_unit(2, 1, 3));
  EXPECT_NE(random_unit(1, 2, 3), random_unit(1, 3, 2));
  EXPECT_NE(random_unit(1, 2, 3), random_unit(3, 2, 1));
}

}  // namespace
}  // namespace fathom
