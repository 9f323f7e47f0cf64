#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "engine/engine.h"
#include "fathom/model.h"
#include "tests/paths.h"

namespace fathom {
namespace {

class Generate : public testing::Test {
 protected:
  static Model load(int64_t context = 0) {
    LoadOptions options;
    options.folder = test_paths::golden() + "/r1-tiny";
    options.threads = 1;
    options.context = context;
    return Model::load(options);
  }
  static GenerateRequest request(int64_t max_tokens = 16) {
    GenerateRequest r;
    r.prompt.ids = {0, 5, 9, 100, 200};
    r.max_tokens = max_tokens;
    r.ignore_eos = true;
    return r;
  }
};

TEST_F(Generate, TheSameSeedGivesTheSameTokensAndAnotherOneOthers) {
  Model model = load();
  GenerateRequest r = request(32);
  r.sampling.temperature = 1.5;
  r.sampling.top_p = 1;
  r.sampling.seed = 7;
  const auto first = model.generate(r).ids;
  EXPECT_EQ(model.generate(r).ids, first);
  r.sampling.seed = 8;
  EXPECT_NE(model.generate(r).ids, first);
  r.sampling.seed = 7;
  r.sampling.choice = 1;
  EXPECT_NE(model.generate(r).ids, first);
}

TEST_F(Generate, StopsAtItsIdsAndCountsThem) {
  Model model = load();
  GenerateRequest r = request();
  r.sampling.temperature = 0;
  const auto free = model.generate(r);
  EXPECT_EQ(free.finish_reason, FinishReason::length);
  EXPECT_EQ(free.ids.size(), 16u);
  r.stop_ids = {free.ids[4]};
  const auto stopped = model.generate(r);
  EXPECT_EQ(stopped.finish_reason, FinishReason::stop);
  const auto first = std::find(free.ids.begin(), free.ids.end(), free.ids[4]);
  EXPECT_EQ(stopped.ids, std::vector<int32_t>(free.ids.begin(), first + 1));
}

TEST_F(Generate, TheContextEndsAnAnswer) {
  Model model = load(8);
  GenerateRequest r = request(100);
  const auto result = model.generate(r);
  EXPECT_EQ(result.finish_reason, FinishReason::length);
  EXPECT_EQ(result.ids.size(), 3u);
  r.prompt.ids.assign(8, 1);
  EXPECT_THROW(model.generate(r), Error);
}

TEST_F(Generate, ReusesWhatTheCacheHoldsWithoutChangingAToken) {
  Model model = load();
  GenerateRequest r = request(90);
  r.sampling.temperature = 0;
  Cache cache;
  r.cache = &cache;
  const auto first = model.generate(r);
  EXPECT_EQ(first.cached_tokens, 0);

  GenerateRequest follow = request(20);
  follow.sampling.temperature = 0;
  follow.prompt.ids.insert(follow.prompt.ids.end(), first.ids.begin(), first.ids.end());
  follow.prompt.ids.push_back(17);
  const auto alone = model.generate(follow);
  follow.cache = &cache;
  const auto reused = model.generate(follow);
  EXPECT_EQ(reused.ids, alone.ids);
  EXPECT_EQ(reused.cached_tokens, 5 + 90 - 1) << "all but the last token, which was never run";

  // Another prompt that shares only its beginning.
  GenerateRequest other = request(20);
  other.sampling.temperature = 0;
  other.prompt.ids[3] = 101;
  const auto other_alone = model.generate(other);
  other.cache = &cache;
  const auto other_reused = model.generate(other);
  EXPECT_EQ(other_reused.ids, other_alone.ids);
  EXPECT_EQ(other_reused.cached_tokens, 3);
}

TEST_F(Generate, CallbacksSeeEveryTokenAndMayEndIt) {
  Model model = load();
  GenerateRequest r = request();
  std::vector<int32_t> seen;
  std::vector<double> progress;
  r.on_step = [&seen](const GenerateStep& step) {
    seen.push_back(step.id);
    return seen.size() < 5;
  };
  r.on_prefill = [&progress](double share) { progress.push_back(share); };
  const auto result = model.generate(r);
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.ids, seen);
  EXPECT_EQ(seen.size(), 5u);
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(progress.back(), 1.0);
}

TEST_F(Generate, CancellationEndsItBetweenLayersAndLeavesTheCacheUsable) {
  Model model = load();
  CancelToken cancel;
  Cache cache;
  GenerateRequest r = request();
  r.sampling.temperature = 0;
  const auto expected = model.generate(r).ids;
  r.cancel = &cancel;
  r.cache = &cache;
  r.on_prefill = [&cancel](double) { cancel.cancel(); };
  const auto result = model.generate(r);
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(cache.length(), 0);
  r.on_prefill = nullptr;
  cancel.reset();
  EXPECT_EQ(model.generate(r).ids, expected);
}

TEST_F(Generate, RefusesWhatCannotBeComputed) {
  Model model = load();
  GenerateRequest r = request();
  for (const int32_t bad : {-1, 263, 1 << 30}) {
    r.prompt.ids = {1, bad};
    EXPECT_THROW(model.generate(r), Error) << bad;
  }
  r.prompt.ids = {};
  EXPECT_THROW(model.generate(r), Error);
  r = request();
  r.sampling.temperature = -1;
  EXPECT_THROW(model.generate(r), Error);
  r = request();
  r.stop = {"x"};  // the folder has no tokenizer
  EXPECT_THROW(model.generate(r), Error);
  r = request();
  r.sampling.logit_bias = {{263, 1.0}};
  EXPECT_THROW(model.generate(r), Error);
  EXPECT_EQ(model.generate(request()).ids.size(), 16u) << "the model still works";
}

TEST(ForwardLoss, IsTheMeanOverLabelsThatAreNotIgnored) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  Model model = Model::load(options);
  ForwardInput input;
  input.ids = {0, 5, 9, 100, 200, 31};
  input.labels = {0, 5, -100, 100, 200, 31};
  const ForwardOutput output = model.forward(input);
  double sum = 0;
  for (const size_t row : {0u, 2u, 3u, 4u}) {
    const float* logits = output.logits.data() + row * static_cast<size_t>(output.vocab);
    double total = 0;
    for (int64_t v = 0; v < output.vocab; ++v) total += std::exp(static_cast<double>(logits[v]));
    sum += std::log(total) - logits[input.labels[row + 1]];
  }
  ASSERT_TRUE(output.loss.has_value());
  EXPECT_NEAR(*output.loss, sum / 4, 1e-9);

  input.logits = false;
  const ForwardOutput only_loss = model.forward(input);
  EXPECT_TRUE(only_loss.logits.empty());
  EXPECT_EQ(only_loss.loss, output.loss);
}

TEST(ForwardInputs, AreCheckedByName) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  Model model = Model::load(options);
  const auto message = [&model](const ForwardInput& input) -> std::string {
    try {
      model.forward(input);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  ForwardInput input;
  EXPECT_NE(message(input).find("empty"), std::string::npos);
  input.ids = {1, 2, 3};
  input.positions = {1};
  EXPECT_NE(message(input).find("positions"), std::string::npos);
  input.positions = {};
  input.labels = {1, 2, 263};
  EXPECT_NE(message(input).find("labels"), std::string::npos);
  input.labels = {};
  input.attention_mask = {1, 0, 1};
  EXPECT_NE(message(input).find("attention_mask"), std::string::npos);
  input.attention_mask = {0, 0, 0};
  EXPECT_NE(message(input).find("attention_mask"), std::string::npos);
  input.attention_mask = {};
  input.embeddings.assign(160, 0.0f);
  EXPECT_NE(message(input).find("embeddings"), std::string::npos);
  input.ids = {};
  input.embeddings.assign(161, 0.0f);
  EXPECT_NE(message(input).find("hidden_size"), std::string::npos);
}

}  // namespace
}  // namespace fathom
