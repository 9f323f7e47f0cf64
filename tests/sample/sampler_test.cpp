#include "sample/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "sample/candidates.h"
#include "sample/logprobs.h"
#include "tests/paths.h"

namespace fathom {
namespace {

const nlohmann::json& cases() {
  static const nlohmann::json json =
      nlohmann::json::parse(read_text(test_paths::golden() + "/sampling-cases.json"));
  return json;
}

std::vector<float> floats(const nlohmann::json& list) {
  std::vector<float> values;
  for (const auto& item : list) {
    values.push_back(item.is_string() ? std::strtof(item.get<std::string>().c_str(), nullptr)
                                      : item.get<float>());
  }
  return values;
}

int32_t sample_once(const SamplingOptions& options, std::vector<float> logits, uint64_t position) {
  return Sampler(options, 0).sample(logits, position);
}

std::string error_of(const SamplingOptions& options, ErrorKind kind) {
  try {
    validate(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "accepted";
}

TEST(Sampler, TemperatureZeroIsGreedy) {
  const auto& item = cases()["greedy"];
  for (double temperature : item["temperature"]) {
    SamplingOptions options;
    options.temperature = temperature;
    for (int i = 0; i < item["repeats"].get<int>(); ++i) {
      EXPECT_EQ(sample_once(options, floats(item["logits"]), i), item["id"].get<int>());
    }
  }
}

TEST(Sampler, GreedyTiesGoToTheLowestId) {
  SamplingOptions options;
  options.temperature = 0;
  EXPECT_EQ(sample_once(options, {1, 3, 3, 3}, 0), 1);
}

TEST(Sampler, TheSeedDecidesAndKeepsTheTemperature) {
  const auto& item = cases()["seed"];
  std::vector<std::vector<int32_t>> runs;
  for (uint64_t seed : item["seeds"]) {
    SamplingOptions options;
    options.temperature = item["temperature"];
    options.seed = seed;
    std::vector<int32_t> ids;
    for (uint64_t position = 0; position < 20; ++position) {
      ids.push_back(
          sample_once(options, std::vector<float>(item["flat_logits"].get<size_t>()), position));
    }
    runs.push_back(ids);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
  EXPECT_GT(std::set<int32_t>(runs[0].begin(), runs[0].end()).size(), 10u);
}

TEST(Sampler, ChoicesOfOneRequestDiffer) {
  SamplingOptions options;
  std::vector<int32_t> first, second;
  for (uint64_t position = 0; position < 20; ++position) {
    std::vector<float> logits(1000);
    first.push_back(Sampler(options, 0).sample(logits, position));
    second.push_back(Sampler(options, 1).sample(logits, position));
  }
  EXPECT_NE(first, second);
}

TEST(Sampler, CutOffs) {
  const auto& item = cases()["cut_off"];
  for (const auto& one : item["cases"]) {
    SamplingOptions options;
    const auto& given = one["options"];
    if (given.contains("top_k")) options.top_k = given["top_k"];
    if (given.contains("top_p")) options.top_p = given["top_p"];
    if (given.contains("min_p")) options.min_p = given["min_p"];
    std::vector<float> logits = floats(item["logits"]);
    const auto kept = Sampler(options, 0).distribution(logits);
    std::vector<int32_t> ids;
    double kept_sum = 0;
    for (const auto& candidate : kept) {
      ids.push_back(candidate.id);
      kept_sum += item["probabilities"][candidate.id].get<double>();
    }
    EXPECT_EQ(ids, one["kept"].get<std::vector<int32_t>>()) << given;
    for (const auto& candidate : kept) {
      EXPECT_NEAR(candidate.probability,
                  item["probabilities"][candidate.id].get<double>() / kept_sum, 1e-5);
    }
  }
}

TEST(Sampler, RepetitionPenaltyOncePerDistinctToken) {
  const auto& item = cases()["repetition_penalty"];
  SamplingOptions options;
  options.repetition_penalty = item["repetition_penalty"];
  Sampler sampler(options, 0);
  sampler.see_prompt(item["prompt"].get<std::vector<int32_t>>());
  for (int32_t id : item["output"]) sampler.see_output(id);
  std::vector<float> logits = floats(item["logits"]);
  sampler.distribution(logits);  // leaves the adjusted logits behind
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(logits[i], item["adjusted"][i].get<double>(), 1e-6);
  }
}

TEST(Sampler, PresenceAndFrequencyCountOnlyTheOutput) {
  SamplingOptions options;
  options.presence_penalty = 0.5;
  options.frequency_penalty = 0.25;
  Sampler sampler(options, 0);
  sampler.see_prompt(std::vector<int32_t>{0, 0});
  for (int32_t id : {1, 1, 1, 2}) sampler.see_output(id);
  std::vector<float> logits{1, 1, 1, 1};
  sampler.distribution(logits);
  EXPECT_EQ(logits, (std::vector<float>{1, -0.25, 0.25, 1}));
  sampler.unsee_output(std::vector<int32_t>{1, 2});
  logits = {1, 1, 1, 1};
  sampler.distribution(logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 0, 1, 1}));
}

TEST(Sampler, BiasComesFirst) {
  SamplingOptions options;
  options.temperature = 0;
  options.repetition_penalty = 2;
  options.logit_bias = {{0, 100}, {1, -100}};
  Sampler sampler(options, 0);
  sampler.see_output(0);
  std::vector<float> logits{-1, 5, 0};
  EXPECT_EQ(sampler.sample(logits, 0), 0);
  EXPECT_EQ(logits, (std::vector<float>{49.5, -95, 0}));
  options.logit_bias = {{3, 1}};
  logits = {0, 0, 0};
  EXPECT_THROW(Sampler(options, 0).sample(logits, 0), Error);
}

TEST(Sampler, LogitsThatAreNoNumbersAreErrors) {
  for (double temperature : {0.0, 1.0}) {
    for (const auto& item : cases()["not_numbers"]) {
      SamplingOptions options;
      options.temperature = temperature;
      try {
        sample_once(options, floats(item), 0);
        FAIL() << item << " was sampled from";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::input);
      }
    }
    std::vector<float> none;
    EXPECT_THROW(Sampler({}, 0).sample(none, 0), Error);
  }
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
  const float inf = std::numeric_limits<float>::infinity();
  for (uint64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(sample_once({}, {-inf, 0, -inf}, position), 1);
  }
}

TEST(Sampler, RangesAreCheckedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [](auto change) {
    SamplingOptions options;
    change(options);
    return error_of(options, ErrorKind::usage);
  };
  EXPECT_EQ(with([&](auto& o) { o.temperature = -0.1; }).rfind("temperature:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.temperature = nan; }).rfind("temperature:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.top_p = 1.1; }).rfind("top_p:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.min_p = -1; }).rfind("min_p:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.repetition_penalty = 0; }).rfind("repetition_penalty:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.repetition_penalty = nan; }).rfind("repetition_penalty:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.presence_penalty = 3; }).rfind("presence_penalty:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.frequency_penalty = -3; }).rfind("frequency_penalty:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.logit_bias = {{1, 101}}; }).rfind("logit_bias:", 0), 0u);
  EXPECT_EQ(with([&](auto& o) { o.logit_bias = {{-1, 1}}; }).rfind("logit_bias:", 0), 0u);
  EXPECT_EQ(with([](auto&) {}), "accepted");
}

// The plain definition of candidates.h: a full sort.
std::vector<int32_t> plainly_kept(const std::vector<float>& logits,
                                  const SamplingOptions& options) {
  std::vector<WeightedToken> ranked;
  const float best = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i) {
    ranked.push_back(
        {token_weight(logits[i], best, options.temperature), logits[i], static_cast<int32_t>(i)});
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  const auto size = static_cast<int64_t>(ranked.size());
  if (options.top_k > 0 && options.top_k < size) ranked.resize(options.top_k);
  uint64_t total = 0;
  for (const auto& token : ranked) total += token.weight;
  std::vector<int32_t> kept;
  uint64_t sum = 0;
  for (const auto& token : ranked) {
    if (token.weight == 0) break;
    const bool best_one = kept.empty();
    if (!best_one && static_cast<double>(token.weight) < options.min_p * 0x1p45) break;
    kept.push_back(token.id);
    sum += token.weight;
    if (options.top_p < 1 &&
        sum >= static_cast<uint64_t>(std::ceil(options.top_p * static_cast<double>(total)))) {
      break;
    }
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

TEST(Candidates, WeightsAreTheExponential) {
  for (int i = 0; i <= 320000; ++i) {
    const auto logit = static_cast<float>(-1e-4 * i);
    const double units = std::exp(static_cast<double>(logit)) * 0x1p45;
    ASSERT_NEAR(static_cast<double>(token_weight(logit, 0, 1)), units, 0.52 + units * 1e-15)
        << logit;
  }
  EXPECT_EQ(token_weight(3, 3, 0.5), uint64_t{1} << 45);
  EXPECT_EQ(token_weight(-std::numeric_limits<float>::infinity(), 3, 0.5), 0u);
}

TEST(Candidates, SelectionEqualsAFullSort) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  for (int round = 0; round < 3000; ++round) {
    const size_t vocab = 1 + random() % (round % 50 == 0 ? 20000 : 300);
    const float spread = std::array{0.0f, 0.01f, 1.0f, 5.0f, 40.0f}[random() % 5];
    std::vector<float> logits(vocab);
    for (float& logit : logits) {
      logit = normal(random) * spread;
      if (round % 3 == 0) logit = std::round(logit);  // many ties
      if (random() % 10 == 0) logit = -std::numeric_limits<float>::infinity();
    }
    logits[random() % vocab] = 1;
    SamplingOptions options;
    options.temperature = std::array{0.1, 0.6, 1.0, 2.0}[random() % 4];
    options.top_k = std::array{0, 0, 1, 5, 40, 1000000}[random() % 6];
    options.top_p = std::array{0.0, 0.3, 0.95, 0.999999, 1.0}[random() % 5];
    options.min_p = std::array{0.0, 0.0, 0.05, 0.999}[random() % 4];
    std::vector<int32_t> ids;
    for (const auto& token : keep_candidates(logits, argmax(logits), options)) {
      ids.push_back(token.id);
    }
    ASSERT_EQ(ids, plainly_kept(logits, options))
        << "vocab " << vocab << " spread " << spread << " T " << options.temperature << " k "
        << options.top_k << " p " << options.top_p << " min " << options.min_p;
  }
}

TEST(Sampler, DrawsAsOftenAsTheDistributionSays) {
  SamplingOptions options;
  options.temperature = 0.8;
  options.top_p = 0.9;
  const std::vector<float> logits{0.5, 2, -1, 1, 0, 1.5};
  std::vector<float> scratch = logits;
  std::map<int32_t, double> expected;
  double sum = 0;
  for (const auto& candidate : Sampler(options, 0).distribution(scratch)) {
    expected[candidate.id] = candidate.probability;
    sum += candidate.probability;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_LT(expected.size(), logits.size());
  std::map<int32_t, int> counts;
  const int draws = 40000;
  for (int i = 0; i < draws; ++i) ++counts[sample_once(options, logits, i)];
  for (const auto& [id, count] : counts) {
    ASSERT_TRUE(expected.contains(id)) << id << " had been cut off";
    EXPECT_NEAR(static_cast<double>(count) / draws, expected[id], 0.01);
  }
}

TEST(LogProbability, IsTheLogOfSoftmax) {
  const std::vector<float> logits{1, 2, 3, -100};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(Logprobs(logits).exact(1), 2 - std::log(sum), 1e-12);
  EXPECT_NEAR(Logprobs(logits).exact(3), -100 - std::log(sum), 1e-10);
  EXPECT_THROW(Logprobs(logits).exact(4), Error);
}

}  // namespace
}  // namespace fathom
