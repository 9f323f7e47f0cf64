#include "model/deepseek/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fathom {
namespace {

std::vector<RouterChoice> choose(const RouterOptions& options, std::vector<float> logits,
                                 std::vector<float> bias) {
  Router router(options);
  std::vector<RouterChoice> chosen(static_cast<size_t>(options.num_experts_per_tok));
  router.choose(logits, bias.data(), chosen);
  return chosen;
}

// Options in order: experts, groups, kept groups, experts per token, normalise, scale.
TEST(Router, BiasDecidesBetweenCloseScoresInFullPrecision) {
  const auto chosen =
      choose({4, 1, 1, 1, true, 2.5}, {0.1f, 0.102f, -1, -1}, {5.0008f, 5.0001f, 0, 0});
  EXPECT_EQ(chosen[0].expert, 0);
  EXPECT_FLOAT_EQ(chosen[0].weight, 0.524979187f * 2.5f);  // one expert: not normalised
}

TEST(Router, BiasSteersTheChoiceAndNeverTheWeight) {
  const auto chosen = choose({4, 1, 1, 2, true, 2.5}, {1, 0, -1, -2}, {0, 0.5f, 0.6f, 0});
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 2);
  EXPECT_NEAR(chosen[0].weight, 1.625611, 1e-5);
  EXPECT_NEAR(chosen[1].weight, 0.874389, 1e-5);
}

TEST(Router, ScoresAreSigmoidsNormalisedOverTheChosen) {
  const auto chosen = choose({4, 1, 1, 2, true, 2.5}, {2, 1, 0, -1}, {0, 0, 0, 0});
  EXPECT_NEAR(chosen[0].weight, 1.366123, 1e-5);
  EXPECT_NEAR(chosen[1].weight, 1.133877, 1e-5);
  EXPECT_NEAR(chosen[0].weight + chosen[1].weight, 2.5, 1e-6);
}

TEST(Router, AGroupCountsAsItsTwoBest) {
  // Group 0 has the single best expert, group 1 the better pair.
  const auto chosen =
      choose({6, 2, 1, 2, false, 1}, {0, 0, 0, 0, 0, 0}, {0.9f, -0.4f, -0.4f, 0.5f, 0.4f, -0.5f});
  EXPECT_EQ(chosen[0].expert, 3);
  EXPECT_EQ(chosen[1].expert, 4);
  EXPECT_FLOAT_EQ(chosen[0].weight, 0.5f);
}

TEST(Router, MaskedGroupsStayOutEvenWhenAllChoicesAreNegative) {
  // With 0 instead of minus infinity the masked group 1 would win over the negative choices.
  const auto chosen = choose({4, 2, 1, 2, true, 1}, {0, 0, 0, 0}, {-2, -2.1f, -3, -3.1f});
  EXPECT_EQ(chosen[0].expert, 0);
  EXPECT_EQ(chosen[1].expert, 1);
}

TEST(Router, TiesGoToTheLowestIndex) {
  const auto chosen =
      choose({8, 4, 2, 3, true, 1}, std::vector<float>(8, 0.0f), std::vector<float>(8, 0.0f));
  EXPECT_EQ(chosen[0].expert, 0);
  EXPECT_EQ(chosen[1].expert, 1);
  EXPECT_EQ(chosen[2].expert, 2);
}

TEST(Router, NotANumberStaysInsideTheExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const RouterChoice& c :
       choose({8, 4, 2, 3, true, 1}, std::vector<float>(8, nan), std::vector<float>(8, 0.0f))) {
    EXPECT_GE(c.expert, 0);
    EXPECT_LT(c.expert, 8);
  }
}

}  // namespace
}  // namespace fathom
