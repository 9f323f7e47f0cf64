#include "model/deepseek/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fathom {
namespace {

DeepseekConfig r1_config() {
  DeepseekConfig config;
  config.qk_nope_head_dim = 128;
  config.qk_rope_head_dim = 64;
  config.max_position_embeddings = 163840;
  config.rope_theta = 10000;
  config.rope_scaling = {RopeType::yarn, 40, 4096, 32, 1, 1, 1};
  return config;
}

TEST(Rope, YarnFrequenciesOfR1) {
  const Rope rope(r1_config());
  const auto& f = rope.inverse_frequencies();
  ASSERT_EQ(f.size(), 32u);
  const std::pair<size_t, double> expected[] = {
      {0, 1},
      {1, 0.749894209332},
      {10, 0.056234132519},
      {11, 0.0390069265671},
      {16, 0.0055},
      {20, 0.000790569415042},
      {22, 0.000177827941004},
      {23, 3.33380358041e-05},
      {31, 3.33380358041e-06},
  };
  for (const auto& [i, value] : expected) EXPECT_NEAR(f[i] / value, 1, 1e-6) << i;
}

TEST(Rope, YarnBoundsAreRounded) {
  EXPECT_NEAR(yarn_dimension(32, 64, 10000, 4096), 10.472240810318025, 1e-12);
  EXPECT_NEAR(yarn_dimension(1, 64, 10000, 4096), 22.513440636877274, 1e-12);
}

TEST(Rope, SoftmaxScaleHasTheSquareOfMscaleAndCosineHasNone) {
  const Rope rope(r1_config());
  EXPECT_NEAR(yarn_mscale(40, 1), 1.3688879454113936, 1e-12);
  EXPECT_NEAR(rope.softmax_scale(), 0.1352337788608801, 1e-9);
  EXPECT_EQ(rope.cos_sin_scale(), 1.0f);

  DeepseekConfig plain = r1_config();
  plain.rope_scaling = {};
  EXPECT_NEAR(Rope(plain).softmax_scale(), 0.07216878364870322, 1e-12);

  // The scale of the softmax heeds mscale_all_dim under any type.
  for (const RopeType type : {RopeType::linear, RopeType::dynamic}) {
    plain.rope_scaling.type = type;
    plain.rope_scaling.factor = 40;
    plain.rope_scaling.mscale_all_dim = 1;
    EXPECT_NEAR(Rope(plain).softmax_scale(), 0.1352337788608801, 1e-9);
  }
}

TEST(Rope, RotatesNeighboursAndPutsTheHalvesApart) {
  DeepseekConfig config;
  config.qk_rope_head_dim = 4;
  config.rope_theta = 10000;  // frequencies 1 and 0.01
  config.max_position_embeddings = 16;
  const Rope rope(config);
  float angles[4];
  rope.angles(1, 1, angles);
  const float x[4] = {1, 2, 3, 4};
  float y[4];
  rope.rotate(angles, x, y);
  EXPECT_NEAR(y[0], -1.14264, 1e-5);
  EXPECT_NEAR(y[2], 1.922076, 1e-5);
  EXPECT_NEAR(y[1], 2.959851, 1e-5);
  EXPECT_NEAR(y[3], 4.0298, 1e-5);
}

TEST(Rope, AnglesFarOutAreThoseOfRoundedFrequencies) {
  const Rope rope(r1_config());
  float angles[64];
  for (const int64_t position : {160000, 163839}) {
    rope.angles(position, position + 1, angles);
    for (size_t i = 0; i < 32; ++i) {
      const float angle = static_cast<float>(position) * rope.inverse_frequencies()[i];
      EXPECT_NEAR(angles[i], std::cos(static_cast<double>(angle)), 6e-8) << position << " " << i;
      EXPECT_NEAR(angles[32 + i], std::sin(static_cast<double>(angle)), 6e-8);
    }
  }
}

TEST(Rope, LinearDividesPositions) {
  DeepseekConfig config = r1_config();
  config.rope_scaling = {RopeType::linear, 4};
  const Rope scaled(config);
  config.rope_scaling = {};
  const Rope plain(config);
  float a[64];
  float b[64];
  scaled.angles(400, 401, a);
  plain.angles(100, 101, b);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(a[i], b[i]);
}

TEST(Rope, DynamicGrowsItsBaseOnlyBeyondTheContext) {
  DeepseekConfig config = r1_config();
  config.max_position_embeddings = 128;
  config.rope_scaling = {RopeType::dynamic, 2};
  const Rope dynamic(config);
  config.rope_scaling = {};
  const Rope plain(config);
  float a[64];
  float b[64];
  dynamic.angles(100, 128, a);
  plain.angles(100, 128, b);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(a[i], b[i]);

  dynamic.angles(100, 256, a);
  const double base = 10000 * std::pow(2.0 * 256 / 128 - 1, 64.0 / 62);
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(a[i], std::cos(100 / std::pow(base, 2 * i / 64.0)), 1e-4) << i;
  }
}

}  // namespace
}  // namespace fathom
