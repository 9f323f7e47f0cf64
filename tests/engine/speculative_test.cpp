// Drafting changes how many passes it takes, never a token.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/speculation.h"
#include "fathom/model.h"
#include "fathom/scheduler.h"
#include "tests/paths.h"

namespace fathom {
namespace {

std::string tiny() { return test_paths::golden() + "/r1-tiny"; }
std::string demo() { return test_paths::models() + "/demo"; }

Model load(const std::string& folder, Speculation speculation) {
  LoadOptions options;
  options.folder = folder;
  options.threads = 1;
  options.speculation = speculation;
  return Model::load(options);
}

GenerateRequest request(int32_t tokens, int32_t salt, double temperature) {
  GenerateRequest r;
  for (int32_t i = 0; i < tokens; ++i) r.prompt.ids.push_back((i * 37 + i * i * 11 + salt) % 263);
  r.max_tokens = 40;
  r.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 11;
  return r;
}

class Speculative : public testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Temperatures, Speculative, testing::Values(0.0, 0.6, 1.5),
                         [](const auto& info) {
                           return "t" + std::to_string(static_cast<int>(info.param * 10));
                         });

TEST_P(Speculative, GivesTheSameIdsOverTurnsThatReuseTheCache) {
  Model plain = load(tiny(), Speculation::off);
  Model drafting = load(tiny(), Speculation::on);
  Cache plain_cache;
  Cache drafting_cache;
  GenerateRequest r = request(70, 1, GetParam());
  for (int turn = 0; turn < 4; ++turn) {
    r.cache = &plain_cache;
    const GenerateResult expected = plain.generate(r);
    r.cache = &drafting_cache;
    const GenerateResult got = drafting.generate(r);
    EXPECT_EQ(got.ids, expected.ids) << "turn " << turn;
    EXPECT_EQ(drafting_cache.length(), plain_cache.length());
    EXPECT_GT(got.speculation.drafts, 0);
    EXPECT_TRUE(got.speculation.on);
    EXPECT_FALSE(expected.speculation.on);
    EXPECT_EQ(expected.speculation.drafts, 0);
    // The answer's beginning and something new; then a shorter prompt, which cuts the cache.
    if (turn == 2) {
      r.prompt.ids.resize(65);
    } else {
      r.prompt.ids.insert(r.prompt.ids.end(), got.ids.begin(), got.ids.begin() + 20);
      r.prompt.ids.push_back(7 + turn);
    }
  }
}

TEST_P(Speculative, GivesTheSameIdsInCompanyAndForSamples) {
  Model plain = load(tiny(), Speculation::off);
  Model drafting = load(tiny(), Speculation::on);
  const std::vector<GenerateRequest> requests = {
      request(70, 1, GetParam()), request(1, 2, GetParam()), request(129, 3, GetParam())};
  const auto expected = plain.generate(requests, 3);
  const auto got = drafting.generate(requests, 3);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(got[i].ids, expected[i].ids);
    EXPECT_GT(got[i].speculation.drafts, 0);
  }
  // A prompt of 65 tokens: what the MTP layer caches for its last one lies on a shared page.
  for (const int32_t tokens : {64, 65, 66}) {
    const auto plain_samples = plain.generate_samples(request(tokens, 1, GetParam()), 3);
    const auto samples = drafting.generate_samples(request(tokens, 1, GetParam()), 3);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(samples[i].ids, plain_samples[i].ids);
      EXPECT_GT(samples[i].speculation.drafts, 0);
    }
  }
}

TEST(SpeculativeDemo, AcceptsMostDraftsOfATrainedModel) {
  Model plain = load(demo(), Speculation::off);
  Model drafting = load(demo(), Speculation::on);
  GenerateRequest r;
  r.prompt = plain.render(R"([{"role":"user","content":"What is 47+85?"}])");
  r.max_tokens = 200;
  for (const double temperature : {0.0, 0.6}) {
    r.sampling.temperature = temperature;
    const GenerateResult expected = plain.generate(r);
    const GenerateResult got = drafting.generate(r);
    EXPECT_EQ(got.ids, expected.ids);
    EXPECT_EQ(got.content, expected.content);
    EXPECT_EQ(got.finish_reason, expected.finish_reason);
    EXPECT_GT(got.speculation.drafts, 5);
    EXPECT_GT(10 * got.speculation.accepted, 8 * got.speculation.drafts)
        << got.speculation.accepted << " of " << got.speculation.drafts;
  }
}

// An accepted draft saves a pass: what is verified is what was drafted for that place.
TEST(SpeculativeDemo, TakesFewerPasses) {
  Model drafting = load(demo(), Speculation::on);
  GenerateRequest r;
  r.prompt = drafting.render(R"([{"role":"user","content":"What is 47+85?"}])");
  r.sampling.temperature = 0;
  r.max_tokens = 200;
  Scheduler scheduler(drafting);
  GenerateResult result;
  scheduler.add(r, 1, [&result](int64_t, GenerateResult&& got) { result = std::move(got); });
  while (scheduler.step()) {
  }
  EXPECT_EQ(scheduler.status().passes + static_cast<uint64_t>(result.speculation.accepted),
            result.ids.size());
}

TEST(SpeculativeModes, AFolderWithoutTheLayerIsRefusedAndLeftAloneByAutomatic) {
  const std::string without = test_paths::golden() + "/r1-no-qlora-linear";
  EXPECT_THROW(load(without, Speculation::on), Error);
  Model model = load(without, Speculation::automatic);
  GenerateRequest r;
  r.prompt.ids = {1, 2, 3};
  r.max_tokens = 4;
  r.ignore_eos = true;
  const GenerateResult result = model.generate(r);
  EXPECT_FALSE(result.speculation.on);
  EXPECT_EQ(result.speculation.drafts, 0);
}

TEST(SpeculativeModes, AutomaticGivesTheSameIdsWhileItTries) {
  Model plain = load(tiny(), Speculation::off);
  Model trying = load(tiny(), Speculation::automatic);
  GenerateRequest r = request(20, 1, 0.7);
  r.max_tokens = 200;
  const GenerateResult got = trying.generate(r);
  EXPECT_EQ(got.ids, plain.generate(r).ids);
  EXPECT_GT(got.speculation.drafts, 0);
  EXPECT_FALSE(got.speculation.reason.empty());
}

class Judge : public testing::Test {
 protected:
  // Feeds passes until it has decided, at the most `most`.
  static int feed(SpeculationJudge& judge, double drafted_seconds, int64_t drafted_tokens,
                  double plain_seconds, int most = 1000) {
    for (int pass = 0; pass < most; ++pass) {
      if (judge.on() || !judge.fills()) return pass;
      const bool drafts = judge.drafts();
      judge.record({drafts, 1, drafts ? drafted_tokens : 1,
                    drafts ? drafted_seconds : plain_seconds, 0.001});
    }
    return most;
  }
};

TEST_F(Judge, DraftsWhereATokenTakesLessTime) {
  SpeculationJudge judge(Speculation::automatic, true);
  EXPECT_TRUE(judge.fills());
  // Two tokens in little more time than one.
  EXPECT_LT(feed(judge, 0.011, 2, 0.010), 20) << "a clear case needs few passes";
  EXPECT_TRUE(judge.on());
  EXPECT_TRUE(judge.drafts());
  EXPECT_NE(judge.reason().find("measured"), std::string::npos);
}

TEST_F(Judge, DoesNotDraftWhereTwoRowsReadTwiceAsMuch) {
  SpeculationJudge judge(Speculation::automatic, true);
  // Two tokens for the price of 15.8 experts instead of 8 in each layer, and the MTP layer's.
  EXPECT_LT(feed(judge, 33.2, 2, 16.8), 60);
  EXPECT_FALSE(judge.on());
  EXPECT_FALSE(judge.fills());
  EXPECT_FALSE(judge.drafts());
}

TEST_F(Judge, TakesTheMtpLayersTimeIntoAccountAndATieForNo) {
  SpeculationJudge judge(Speculation::automatic, true);
  feed(judge, 0.019, 2, 0.010);  // 0.019 + 0.001 for two tokens
  EXPECT_FALSE(judge.fills());
}

TEST_F(Judge, TriesAgainAfterManyTokens) {
  SpeculationJudge judge(Speculation::automatic, true);
  feed(judge, 0.03, 2, 0.010);
  ASSERT_FALSE(judge.fills());
  for (int i = 0; i < 5000 && !judge.fills(); ++i) judge.record({false, 1, 1, 0.01, 0});
  EXPECT_TRUE(judge.fills());
  feed(judge, 0.011, 2, 0.010);
  EXPECT_TRUE(judge.on());
}

TEST_F(Judge, ObeysOrders) {
  SpeculationJudge on(Speculation::on, true);
  EXPECT_TRUE(on.on() && on.drafts() && on.fills());
  on.record({true, 1, 1, 100, 100});
  EXPECT_TRUE(on.on());
  on.give_up("the layer failed");
  EXPECT_FALSE(on.fills() || on.drafts());
  SpeculationJudge off(Speculation::off, true);
  EXPECT_FALSE(off.fills() || off.drafts());
}

}  // namespace
}  // namespace fathom
