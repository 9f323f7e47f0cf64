// What a generation tells of the model's own probabilities, and the budget of a thought.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "engine/generate.h"
#include "fathom/scheduler.h"
#include "tests/paths.h"

namespace fathom {
namespace {

Model load(const std::string& folder, int64_t sweep = 0) {
  LoadOptions options;
  options.folder = folder;
  options.threads = 1;
  options.prefill_chunk = sweep;
  return Model::load(options);
}
std::string tiny() { return test_paths::golden() + "/r1-tiny"; }
std::string demo() { return test_paths::models() + "/demo"; }

GenerateRequest request() {
  GenerateRequest r;
  for (int32_t i = 0; i < 40; ++i) r.prompt.ids.push_back((i * 37 + i * i * 11) % 263);
  r.max_tokens = 6;
  r.ignore_eos = true;
  r.sampling.temperature = 1.3;
  r.sampling.frequency_penalty = 1;
  r.sampling.logit_bias = {{7, 3.0}};
  r.logprobs = 4;
  return r;
}

// log softmax of each row, as doubles.
std::vector<std::vector<double>> log_softmax(const ForwardOutput& output) {
  std::vector<std::vector<double>> rows;
  for (int64_t row = 0; row < output.rows; ++row) {
    const float* logits = output.logits.data() + row * output.vocab;
    double sum = 0;
    const double best = *std::max_element(logits, logits + output.vocab);
    for (int64_t i = 0; i < output.vocab; ++i) sum += std::exp(logits[i] - best);
    std::vector<double> logs;
    for (int64_t i = 0; i < output.vocab; ++i) logs.push_back(logits[i] - best - std::log(sum));
    rows.push_back(std::move(logs));
  }
  return rows;
}

void expect_position(const PositionLogprobs& told, int32_t id, const std::vector<double>& logs,
                     size_t top) {
  EXPECT_EQ(told.chosen.id, id);
  EXPECT_NEAR(told.chosen.logprob, logs[static_cast<size_t>(id)], 1e-4);
  ASSERT_EQ(told.top.size(), top);
  for (size_t i = 0; i < top; ++i) {
    EXPECT_NEAR(told.top[i].logprob, logs[static_cast<size_t>(told.top[i].id)], 1e-4);
    if (i > 0) {
      EXPECT_GE(told.top[i - 1].logprob, told.top[i].logprob);
    }
  }
  if (top == 0) return;
  EXPECT_NEAR(told.top[0].logprob, *std::max_element(logs.begin(), logs.end()), 1e-4);
}

TEST(Logprobs, AreOfTheModelsOwnLogitsAtEveryPosition) {
  Model model = load(tiny());
  GenerateRequest r = request();
  r.prompt_logprobs = true;
  std::vector<PositionLogprobs> steps;
  r.on_step = [&](const GenerateStep& step) {
    EXPECT_TRUE(step.logprobs.has_value());
    if (step.logprobs) steps.push_back(*step.logprobs);
    return true;
  };
  const GenerateResult result = model.generate(r);
  ASSERT_EQ(result.logprobs.size(), result.ids.size());
  ASSERT_EQ(steps.size(), result.ids.size());
  ASSERT_EQ(result.prompt_logprobs.size(), r.prompt.ids.size() - 1);

  ForwardInput input;
  input.ids = r.prompt.ids;
  input.ids.insert(input.ids.end(), result.ids.begin(), result.ids.end());
  const auto logs = log_softmax(model.forward(input));
  for (size_t i = 1; i < input.ids.size(); ++i) {
    const bool prompt = i < r.prompt.ids.size();
    const size_t at = i - r.prompt.ids.size();
    expect_position(prompt ? result.prompt_logprobs[i - 1] : result.logprobs[at], input.ids[i],
                    logs[i - 1], 4);
    if (!prompt) {
      EXPECT_EQ(steps[at].chosen.logprob, result.logprobs[at].chosen.logprob);
    }
  }
}

TEST(Logprobs, OfAPromptDoNotDependOnPassesOrCaches) {
  const auto told = [](int64_t sweep, Cache* cache) {
    Model model = load(tiny(), sweep);
    GenerateRequest r = request();
    r.logprobs = std::nullopt;
    r.prompt_logprobs = true;
    r.cache = cache;
    if (cache != nullptr) model.generate(r);
    const GenerateResult result = model.generate(r);
    EXPECT_TRUE(result.logprobs.empty());
    EXPECT_EQ(result.cached_tokens, 0);
    std::vector<float> values;
    for (const PositionLogprobs& position : result.prompt_logprobs) {
      EXPECT_TRUE(position.top.empty());
      values.push_back(position.chosen.logprob);
    }
    return values;
  };
  const auto whole = told(0, nullptr);
  EXPECT_EQ(whole.size(), 39u);
  EXPECT_EQ(told(7, nullptr), whole);
}

TEST(Logprobs, ChangeNoTokenAndNegativeCountsAreRefused) {
  Model model = load(tiny());
  GenerateRequest r = request();
  const auto with = model.generate(r).ids;
  r.logprobs = -1;
  EXPECT_THROW(model.generate(r), Error);
  r.logprobs.reset();
  EXPECT_EQ(model.generate(r).ids, with);
}

TEST(Logprobs, TokensAreToldWithTheirBytes) {
  Model model = load(demo());
  GenerateRequest r;
  r.prompt = model.raw_prompt("2+2=");
  r.max_tokens = 5;
  r.logprobs = 2;
  const GenerateResult result = model.generate(r);
  for (const PositionLogprobs& position : result.logprobs) {
    EXPECT_EQ(position.top.size(), 2u);
    EXPECT_EQ(model.detokenize(std::span(&position.chosen.id, 1)), position.chosen.bytes);
  }
}

GenerateRequest thinking(const Model& model) {
  GenerateRequest r;
  r.prompt = model.render(R"([{"role":"user","content":"What is 47+85?"}])");
  r.max_tokens = 60;
  r.sampling.temperature = 1;
  r.sampling.seed = 3;
  return r;
}

TEST(ReasoningBudget, ClosesTheThoughtAndLeavesTheRestToTheModel) {
  Model model = load(demo());
  const GenerateResult free = model.generate(thinking(model));
  ASSERT_GT(free.reasoning_tokens, 6);
  for (const int64_t budget : {0, 1, 5}) {
    GenerateRequest r = thinking(model);
    r.reasoning_budget = budget;
    const GenerateResult result = model.generate(r);
    EXPECT_EQ(result.reasoning_tokens, budget + 1);  // with the tag
    ASSERT_GT(result.ids.size(), static_cast<size_t>(budget) + 1);
    for (size_t i = 0; i < static_cast<size_t>(budget); ++i) EXPECT_EQ(result.ids[i], free.ids[i]);
    EXPECT_EQ(model.detokenize(std::span(&result.ids[static_cast<size_t>(budget)], 1)), "</think>");
    EXPECT_FALSE(result.content.empty());
    if (budget == 0) {
      EXPECT_EQ(result.reasoning, "");
    }
  }
}

TEST(ReasoningBudget, ThatIsNotUsedUpChangesNothing) {
  Model model = load(demo());
  GenerateRequest r = thinking(model);
  const auto free = model.generate(r).ids;
  r.reasoning_budget = 1000;
  EXPECT_EQ(model.generate(r).ids, free);
  r.reasoning_budget = -1;
  EXPECT_THROW(model.generate(r), Error);
  r.reasoning_budget = 3;
  r.split_reasoning = false;
  EXPECT_THROW(model.generate(r), Error);
}

}  // namespace
}  // namespace fathom
