#include "model/deepseek/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "kernels/dispatch.h"
#include "model/deepseek/moe.h"

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

RouterMargins margins_of(const RouterOptions& options, std::vector<float> logits,
                         std::vector<float> bias) {
  Router router(options);
  std::vector<RouterChoice> chosen(static_cast<size_t>(options.num_experts_per_tok));
  RouterMargins margins;
  router.choose(logits, bias.data(), chosen, &margins);
  return margins;
}

TEST(Router, MarginsAreTheGapsToWhatWasLeftOut) {
  // Sigmoid(0) = 0.5: choices 0.5 + bias. Groups {1.5, 1.25}, {1, 0.75}, {0.5, 0.25}: sums 2.75,
  // 1.75, 0.75. Two groups stay; of their experts three are chosen, 0.75 is left.
  const std::vector<float> logits(6, 0.0f);
  const std::vector<float> bias = {1, 0.75f, 0.5f, 0.25f, 0, -0.25f};
  RouterMargins margins = margins_of({6, 3, 2, 3, true, 1}, logits, bias);
  EXPECT_EQ(margins.group, 1.0f);
  EXPECT_EQ(margins.expert, 0.25f);
  // The best expert outside the groups within reach does not count: 1.25 against nothing is left.
  margins = margins_of({6, 3, 1, 1, true, 1}, logits, bias);
  EXPECT_EQ(margins.group, 1.0f);
  EXPECT_EQ(margins.expert, 0.25f);
  margins = margins_of({6, 3, 1, 2, true, 1}, logits, bias);
  EXPECT_TRUE(std::isinf(margins.expert) && margins.expert > 0);
  margins = margins_of({6, 1, 1, 2, true, 1}, logits, bias);
  EXPECT_TRUE(std::isinf(margins.group) && margins.group > 0);
  EXPECT_EQ(margins.expert, 0.25f);
  // A tie has no margin.
  margins = margins_of({4, 2, 1, 1, true, 1}, std::vector<float>(4, 0.0f), {0, 0, 0, 0});
  EXPECT_EQ(margins.group, 0.0f);
  EXPECT_EQ(margins.expert, 0.0f);
}

TEST(Router, MarginsChangeNoChoice) {
  const RouterOptions options{6, 3, 2, 3, true, 2.5};
  const std::vector<float> logits = {0.3f, -1, 2, 0.1f, 0.2f, -0.4f};
  const std::vector<float> bias = {0, 0.5f, -0.1f, 0.2f, 0.1f, 0.6f};
  Router router(options);
  std::vector<RouterChoice> with(3), without(3);
  RouterMargins margins;
  router.choose(logits, bias.data(), with, &margins);
  router.choose(logits, bias.data(), without);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(with[i].expert, without[i].expert);
    EXPECT_EQ(with[i].weight, without[i].weight);
  }
}

// Answers zeros and remembers what it was asked and told.
class ListeningStore : public ExpertStore {
 public:
  void run(int64_t layer, std::span<const ExpertGroup> groups, Span2d<const float> x,
           const Deliver& deliver, const CancelToken*) override {
    asked_layer = layer;
    asked.clear();
    for (size_t g = 0; g < groups.size(); ++g) {
      asked.insert(groups[g].expert);
      const Matrix zeros(static_cast<int64_t>(groups[g].rows.size()), x.cols);
      deliver(static_cast<int64_t>(g), 0, zeros);
    }
  }
  bool wants_lookahead() const override { return wants; }
  void look_ahead(int64_t layer, std::span<const int32_t> experts) override {
    guessed_layer = layer;
    guessed.assign(experts.begin(), experts.end());
  }
  ExpertStats stats() const override { return {}; }

  bool wants = true;
  int64_t asked_layer = -1;
  std::set<int64_t> asked;
  int64_t guessed_layer = -1;
  std::vector<int32_t> guessed;
};

class ListeningSink : public RouteSink {
 public:
  void begin(int64_t layer, int64_t rows) override { visits.emplace_back(layer, rows); }
  void row(const RoutedRow& row) override {
    experts.emplace_back(row.experts.begin(), row.experts.end());
    margins.push_back({row.group_margin, row.expert_margin});
  }
  std::vector<std::pair<int64_t, int64_t>> visits;
  std::vector<std::vector<int32_t>> experts;
  std::vector<RouterMargins> margins;
};

// Four experts, two of them per row; expert e likes column e of the input.
class MoeTest : public testing::Test {
 protected:
  MoeTest() : pool_(1), context_(best_kernels(), pool_) {
    config_.hidden_size = 4;
    config_.n_routed_experts = 4;
    config_.num_experts_per_tok = 2;
    for (int64_t e = 0; e < 4; ++e) router_.row(e)[e] = 1;
    weights_.moe = true;
    weights_.router.rows = weights_.router.cols = 4;
    weights_.router.data = reinterpret_cast<const std::byte*>(router_.data());
    weights_.e_score_correction_bias = bias_.data();
    x_.row(0)[3] = 2;  // 3, then 1
    x_.row(0)[1] = 1;
    x_.row(1)[0] = 2;  // 0, then 3
    x_.row(1)[3] = 1;
  }

  ThreadPool pool_;
  KernelContext context_;
  DeepseekConfig config_;
  Matrix router_{4, 4};
  std::vector<float> bias_ = std::vector<float>(4);
  LayerWeights weights_;
  Matrix x_{2, 4};
};

TEST_F(MoeTest, GuessesTheFirstChoicesOfAllRowsFirst) {
  ListeningStore store;
  Moe moe(config_, context_, store);
  moe.reserve(2);
  EXPECT_TRUE(moe.wants_guess(1));
  EXPECT_TRUE(moe.wants_guess(Moe::kMostGuessRows));
  EXPECT_FALSE(moe.wants_guess(Moe::kMostGuessRows + 1));
  moe.guess(weights_, 7, x_);
  EXPECT_EQ(store.guessed_layer, 7);
  EXPECT_EQ(store.guessed, (std::vector<int32_t>{3, 0, 1}));
  // What is guessed from the right input is what is then asked for.
  Matrix hidden(2, 4);
  moe.forward(weights_, 7, x_, hidden, nullptr);
  EXPECT_EQ(store.asked_layer, 7);
  EXPECT_EQ(store.asked, std::set<int64_t>(store.guessed.begin(), store.guessed.end()));
  store.wants = false;
  EXPECT_FALSE(moe.wants_guess(1));
}

TEST_F(MoeTest, TellsTheSinkOfEveryChoiceAndOfNoGuess) {
  ListeningStore store;
  ListeningSink sink;
  Moe moe(config_, context_, store);
  moe.reserve(2);
  Matrix hidden(2, 4);
  moe.forward(weights_, 5, x_, hidden, nullptr);
  EXPECT_TRUE(sink.visits.empty());
  moe.set_route_sink(&sink);
  moe.guess(weights_, 5, x_);
  moe.forward(weights_, 5, x_, hidden, nullptr);
  ASSERT_EQ(sink.visits, (std::vector<std::pair<int64_t, int64_t>>{{5, 2}}));
  ASSERT_EQ(sink.experts, (std::vector<std::vector<int32_t>>{{3, 1}, {0, 3}}));
  EXPECT_NEAR(sink.margins[0].expert, 0.7310586f - 0.5f, 1e-6);  // sigmoid(1) against sigmoid(0)
  EXPECT_TRUE(std::isinf(sink.margins[0].group));
  moe.set_route_sink(nullptr);
  moe.forward(weights_, 5, x_, hidden, nullptr);
  EXPECT_EQ(sink.visits.size(), 1u);
}

}  // namespace
}  // namespace fathom
