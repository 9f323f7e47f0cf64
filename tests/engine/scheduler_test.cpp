// Many sequences in one sweep: each gets what it would get alone, whatever happens to the others.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "engine/generate.h"
#include "engine/scheduler.h"
#include "fathom/scheduler.h"
#include "tests/paths.h"

namespace fathom {
namespace {

std::string folder() { return test_paths::golden() + "/r1-tiny"; }

Model load(int64_t context = 0) {
  LoadOptions options;
  options.folder = folder();
  options.threads = 1;
  options.context = context;
  return Model::load(options);
}

GenerateRequest request(int32_t prompt_tokens, int32_t salt, int64_t max_tokens = 20) {
  GenerateRequest r;
  for (int32_t i = 0; i < prompt_tokens; ++i) {
    r.prompt.ids.push_back((i * 37 + i * i * 11 + salt) % 263);
  }
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 1.0;
  r.sampling.seed = static_cast<uint64_t>(salt);
  return r;
}

// Five of different lengths; the third one is greedy with penalties.
std::vector<GenerateRequest> five() {
  std::vector<GenerateRequest> requests = {request(70, 1), request(1, 3, 33), request(129, 9, 5),
                                           request(64, 2, 1), request(13, 77, 40)};
  requests[2].sampling.temperature = 0;
  requests[2].sampling.frequency_penalty = 1;
  return requests;
}

std::vector<std::vector<int32_t>> alone(Model& model, const std::vector<GenerateRequest>& all) {
  std::vector<std::vector<int32_t>> ids;
  for (const GenerateRequest& r : all) ids.push_back(model.generate(r).ids);
  return ids;
}

std::vector<std::vector<int32_t>> ids_of(const std::vector<GenerateResult>& results) {
  std::vector<std::vector<int32_t>> ids;
  for (const GenerateResult& result : results) {
    EXPECT_FALSE(result.error.has_value()) << result.error->what();
    ids.push_back(result.ids);
  }
  return ids;
}

TEST(Scheduler, TogetherGivesWhatAloneGives) {
  Model model = load();
  const std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  for (const int64_t parallel : {1, 2, 5, 8}) {
    EXPECT_EQ(ids_of(model.generate(requests, parallel)), expected) << parallel << " in parallel";
  }
}

TEST(Scheduler, TakesRequestsWhileItRunsAndCutsLongPrompts) {
  Model model = load();
  const std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  for (const int64_t sweep_rows : {0, 1, 7, 64}) {
    Scheduler scheduler(model, {.parallel = 4, .sweep_rows = sweep_rows});
    std::vector<std::vector<int32_t>> got(requests.size());
    std::function<void(size_t)> add = [&](size_t i) {
      scheduler.add(requests[i], 1, [&, i](int64_t, GenerateResult&& result) {
        got[i] = result.ids;
        if (i == 3) add(4);  // from a callback
      });
    };
    add(0);
    EXPECT_TRUE(scheduler.step());
    add(1);
    add(2);
    EXPECT_TRUE(scheduler.step());
    add(3);
    while (scheduler.step()) {
    }
    EXPECT_EQ(got, expected) << "rows of a sweep: " << sweep_rows;
    EXPECT_EQ(scheduler.status().running, 0);
    EXPECT_EQ(scheduler.status().generated, 20u + 33 + 5 + 1 + 40);
  }
}

TEST(Scheduler, ReadsAPromptOnceForAllItsSamples) {
  Model model = load();
  GenerateRequest r = request(70, 4, 12);
  r.sampling.choice = 5;
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t i = 0; i < 6; ++i) {
    GenerateRequest one = r;
    one.sampling.choice = 5 + i;
    expected.push_back(model.generate(one).ids);
  }
  ASSERT_NE(expected[0], expected[1]);
  for (const int64_t parallel : {1, 2, 8}) {
    Scheduler scheduler(model, {.parallel = parallel});
    std::vector<std::vector<int32_t>> got(6);
    scheduler.add(r, 6, [&got](int64_t sample, GenerateResult&& result) {
      EXPECT_EQ(result.cached_tokens, sample == 0 ? 0 : 70);
      got[static_cast<size_t>(sample)] = result.ids;
    });
    while (scheduler.step()) {
    }
    EXPECT_EQ(got, expected) << parallel << " in parallel";
    // The prompt's rows once, and a row for every token but the first of each sample.
    EXPECT_EQ(scheduler.status().rows, 70u + 6 * 11);
  }
}

TEST(Scheduler, SamplesOfOneTokenEndWithoutFurtherPasses) {
  Model model = load();
  const auto results = model.generate_samples(request(9, 4, 1), 5, 2);
  ASSERT_EQ(results.size(), 5u);
  for (size_t i = 0; i < results.size(); ++i) {
    GenerateRequest one = request(9, 4, 1);
    one.sampling.choice = i;
    EXPECT_EQ(results[i].ids, model.generate(one).ids);
  }
}

TEST(Scheduler, ACacheIsLeftWithTheFirstSampleAndServesOneRequest) {
  Model model = load();
  Cache cache;
  GenerateRequest r = request(30, 4, 10);
  r.cache = &cache;
  const auto results = model.generate_samples(r, 3);
  EXPECT_EQ(cache.length(), 30 + 9);
  GenerateRequest follow = r;
  follow.prompt.ids.insert(follow.prompt.ids.end(), results[0].ids.begin(), results[0].ids.end());
  const auto reused = model.generate(follow);
  EXPECT_EQ(reused.cached_tokens, 39);
  follow.cache = nullptr;
  EXPECT_EQ(model.generate(follow).ids, reused.ids);

  Scheduler scheduler(model);
  scheduler.add(r, 1, {});
  EXPECT_THROW(scheduler.add(r, 1, {}), Error);
}

TEST(Scheduler, BadRequestsConcernNobodyElse) {
  Model model = load();
  std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  requests[1].prompt.ids[0] = 263;
  requests[3].sampling.top_p = 7;
  const auto results = model.generate(requests, 5);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool bad = i == 1 || i == 3;
    EXPECT_EQ(results[i].error.has_value(), bad);
    EXPECT_EQ(results[i].finish_reason == FinishReason::error, bad);
    EXPECT_EQ(results[i].ids, bad ? std::vector<int32_t>() : expected[i]);
  }
  EXPECT_NE(std::string(results[3].error->what()).find("top_p"), std::string::npos);
}

TEST(Scheduler, CancellingOneInAStepLeavesTheOthers) {
  Model model = load();
  std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  Scheduler scheduler(model, {.parallel = 5});
  std::vector<GenerateResult> got(requests.size());
  std::vector<uint64_t> ids(requests.size());
  requests[0].on_step = [&, steps = 0](const GenerateStep&) mutable {
    if (++steps == 3) scheduler.cancel(ids[4]);
    return steps < 6;
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    ids[i] = scheduler.add(requests[i], 1, [&got, i](int64_t, GenerateResult&& result) {
      got[i] = std::move(result);
    });
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(got[0].finish_reason, FinishReason::cancelled);
  EXPECT_EQ(got[0].ids.size(), 6u);
  EXPECT_EQ(got[4].finish_reason, FinishReason::cancelled);
  EXPECT_EQ(got[4].ids, std::vector<int32_t>(expected[4].begin(), expected[4].begin() + 3));
  for (const size_t i : {1, 2, 3}) EXPECT_EQ(got[i].ids, expected[i]);
  scheduler.cancel(ids[1]);  // has finished long ago
  EXPECT_FALSE(scheduler.step());
}

TEST(Scheduler, AStoppedPassHasNoEffectAndGoesOn) {
  Model model = load();
  const std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  CancelToken stop;
  int layers = 0;
  SchedulerOptions options;
  options.parallel = 5;
  options.between_layers = [&] {
    if (++layers % 5 == 0) stop.cancel();
  };
  Scheduler scheduler(model, options);
  std::vector<std::vector<int32_t>> got(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    scheduler.add(requests[i], 1,
                  [&got, i](int64_t, GenerateResult&& result) { got[i] = result.ids; });
  }
  int stopped = 0;
  while (scheduler.step(&stop)) {
    if (stop.cancelled()) ++stopped;
    stop.reset();
  }
  EXPECT_GT(stopped, 3);
  EXPECT_EQ(got, expected);

  // What is unfinished when all is cancelled says so.
  GenerateResult last;
  scheduler.add(requests[0], 1, [&last](int64_t, GenerateResult&& r) { last = std::move(r); });
  scheduler.step();
  scheduler.cancel_all();
  EXPECT_EQ(last.finish_reason, FinishReason::cancelled);
  EXPECT_FALSE(scheduler.step());
}

TEST(Scheduler, APassWhoseRequestsAreAllCancelledIsGivenUpBetweenLayers) {
  Model model = load();
  int layers = 0;
  uint64_t id = 0;
  Scheduler* running = nullptr;
  SchedulerOptions options;
  options.between_layers = [&] {
    ++layers;
    running->cancel(id);
  };
  Scheduler scheduler(model, options);
  running = &scheduler;
  GenerateResult result;
  id = scheduler.add(request(40, 2), 3, [&result](int64_t sample, GenerateResult&& r) {
    if (sample == 0) result = std::move(r);
  });
  EXPECT_FALSE(scheduler.step());
  EXPECT_EQ(layers, 1);
  EXPECT_EQ(result.finish_reason, FinishReason::cancelled);
  EXPECT_TRUE(result.ids.empty());
  EXPECT_EQ(scheduler.status().passes, 0u);
}

TEST(Scheduler, ACallbackThatThrowsFailsItsRequestAlone) {
  Model model = load();
  std::vector<GenerateRequest> requests = five();
  const auto expected = alone(model, requests);
  requests[0].on_step = [](const GenerateStep&) -> bool { throw std::runtime_error("no room"); };
  requests[2].on_prefill = [](double) { fail(ErrorKind::io, "no pipe"); };
  const auto results = model.generate(requests, 5);
  ASSERT_TRUE(results[0].error && results[2].error);
  EXPECT_STREQ(results[0].error->what(), "no room");
  EXPECT_STREQ(results[2].error->what(), "no pipe");
  for (const size_t i : {1, 3, 4}) EXPECT_EQ(results[i].ids, expected[i]);
  EXPECT_THROW(model.generate(requests[0]), Error);
}

// A model with a limit of cache pages.
struct Parts {
  explicit Parts(int64_t pages = 1000) {
    LoadOptions options;
    options.folder = folder();
    options.threads = 1;
    engine = std::make_unique<Engine>(options);
    parts = parts_of(*engine, judge);
    parts.pages = std::make_shared<KvPagePool>(engine->pages()->layout(), pages);
  }
  SpeculationJudge judge{Speculation::off, false};
  std::unique_ptr<Engine> engine;
  ModelParts parts;
};

TEST(SchedulerPages, TooFewForAllMakeSequencesWaitAndGoBack) {
  Model model = load();
  const std::vector<GenerateRequest> requests = {request(70, 1, 70), request(60, 3, 80),
                                                 request(129, 9, 10), request(10, 5, 120)};
  const auto expected = alone(model, requests);
  Parts few(4);
  SequenceScheduler scheduler(few.parts, {.parallel = 4});
  std::vector<std::vector<int32_t>> got(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    scheduler.add(requests[i], 1, [&got, i](int64_t, GenerateResult&& result) {
      EXPECT_FALSE(result.error.has_value()) << result.error->what();
      got[i] = result.ids;
    });
  }
  while (scheduler.step(nullptr)) {
    EXPECT_LE(few.parts.pages->pages_in_use(), 4);
  }
  EXPECT_EQ(got, expected);
  EXPECT_GT(scheduler.status().preemptions, 0u);
  // What is left is kept for later requests.
  EXPECT_EQ(few.parts.pages->pages_in_use(), scheduler.status().pages_kept);
}

TEST(SchedulerPages, SequencesThatNeedNoMorePagesAllRunAtOnce) {
  Parts few(4);
  SequenceScheduler scheduler(few.parts, {.parallel = 4});
  int finished = 0;
  for (int i = 0; i < 4; ++i) {
    scheduler.add(request(20, i, 8), 1, [&](int64_t, GenerateResult&&) { ++finished; });
  }
  scheduler.step(nullptr);
  EXPECT_EQ(scheduler.status().running, 4);
  while (scheduler.step(nullptr)) {
  }
  EXPECT_EQ(finished, 4);
  EXPECT_EQ(scheduler.status().preemptions, 0u);
}

TEST(SchedulerPages, ASequenceThatCannotFitFailsAlone) {
  Parts few(2);
  SequenceScheduler scheduler(few.parts, {.parallel = 4});
  std::map<int, GenerateResult> got;
  const auto into = [&got](int i) {
    return [&got, i](int64_t, GenerateResult&& result) { got[i] = std::move(result); };
  };
  scheduler.add(request(150, 1), 1, into(0));
  scheduler.add(request(20, 1, 8), 1, into(1));
  scheduler.add(request(100, 1, 60), 1, into(2));
  while (scheduler.step(nullptr)) {
  }
  ASSERT_TRUE(got[0].error.has_value());
  EXPECT_NE(std::string(got[0].error->what()).find("2 pages"), std::string::npos)
      << got[0].error->what();
  EXPECT_FALSE(got[1].error.has_value());
  EXPECT_EQ(got[1].ids.size(), 8u);
  ASSERT_TRUE(got[2].error.has_value()) << "its prompt fits, its answer does not";
  EXPECT_EQ(got[2].ids.size(), 29u);
}

}  // namespace
}  // namespace fathom
