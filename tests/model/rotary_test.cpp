#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fathom {
namespace {

RotaryOptions llama3() {
  RotaryOptions options;
  options.dim = 128;
  options.theta = 500000;
  options.max_position_embeddings = 131072;
  options.scaling.type = RopeType::llama3;
  options.scaling.factor = 8;
  options.scaling.low_freq_factor = 1;
  options.scaling.high_freq_factor = 4;
  options.scaling.original_max_position_embeddings = 8192;
  return options;
}

// By the formula of the released models, in double precision.
double llama3_frequency(int pair) {
  const double plain = std::pow(500000.0, -2.0 * pair / 128);
  const double wave = 2 * M_PI / plain;
  if (wave > 8192.0) return plain / 8;
  if (wave < 2048.0) return plain;
  const double smooth = (8192 / wave - 1) / 3;
  return (1 - smooth) * plain / 8 + smooth * plain;
}

TEST(Rotary, Llama3FrequenciesOfTheReleasedModel) {
  const Rotary rotary(llama3());
  const auto& f = rotary.inverse_frequencies();
  ASSERT_EQ(f.size(), 64u);
  int whole = 0, stretched = 0;
  for (int i = 0; i < 64; ++i) {
    const double plain = std::pow(500000.0, -2.0 * i / 128);
    EXPECT_NEAR(f[static_cast<size_t>(i)] / llama3_frequency(i), 1, 2e-6) << i;
    whole += std::abs(f[static_cast<size_t>(i)] / plain - 1) < 1e-6;
    stretched += std::abs(f[static_cast<size_t>(i)] / plain * 8 - 1) < 1e-6;
  }
  // Some keep their frequency, some are stretched, and some lie between.
  EXPECT_EQ(whole, 29);
  EXPECT_EQ(stretched, 29);
}

TEST(Rotary, TheHalvesOfAHeadArePairs) {
  RotaryOptions options;
  options.dim = 4;  // frequencies 1 and 0.01
  options.max_position_embeddings = 16;
  options.cos_sin_scale = 2;
  float angles[4];
  Rotary(options).angles(1, 1, angles);
  const float x[4] = {1, 3, 2, 4};
  float y[4];
  rotate_halves(angles, 4, x, y);
  EXPECT_NEAR(y[0], 2 * -1.14264, 1e-5);
  EXPECT_NEAR(y[2], 2 * 1.922076, 1e-5);
  EXPECT_NEAR(y[1], 2 * 2.959851, 1e-5);
  EXPECT_NEAR(y[3], 2 * 4.0298, 1e-5);
}

}  // namespace
}  // namespace fathom
