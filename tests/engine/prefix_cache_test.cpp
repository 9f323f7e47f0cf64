// Prompts that begin like others take over what these have cached, and a long prompt does not keep
// the others waiting; nobody's tokens change.
#include <gtest/gtest.h>

#include "base/error.h"
#include "fathom/scheduler.h"
#include "tests/paths.h"

namespace fathom {
namespace {

Model load(const char* folder = "/r1-tiny", Speculation speculation = Speculation::off) {
  LoadOptions options;
  options.folder = test_paths::golden() + folder;
  options.threads = 1;
  options.speculation = speculation;
  return Model::load(options);
}

// `common` tokens that all requests share, then some of its own.
GenerateRequest request(int32_t common, int32_t own, int32_t salt, int64_t max_tokens = 10) {
  GenerateRequest r;
  for (int32_t i = 0; i < common; ++i) r.prompt.ids.push_back((i * 37 + i * i * 11) % 263);
  for (int32_t i = 0; i < own; ++i) r.prompt.ids.push_back((i * 41 + i * i * 7 + salt) % 263);
  r.max_tokens = max_tokens;
  r.ignore_eos = true;
  r.sampling.temperature = 1.0;
  r.sampling.seed = static_cast<uint64_t>(salt);
  return r;
}

GenerateResult ask(Scheduler& scheduler, const GenerateRequest& r) {
  GenerateResult got;
  scheduler.add(r, 1, [&](int64_t, GenerateResult&& result) { got = std::move(result); });
  while (scheduler.step()) {
  }
  return got;
}

TEST(PrefixCache, LaterRequestsBeginWhereTheirTokensPart) {
  Model model = load();
  Scheduler scheduler(model);
  for (const int32_t own : {9, 1, 64, 30}) {
    const GenerateRequest r = request(70, own, own);
    const GenerateResult alone = model.generate(r);
    const GenerateResult shared = ask(scheduler, r);
    EXPECT_EQ(shared.ids, alone.ids);
    EXPECT_EQ(shared.cached_tokens, own == 9 ? 0 : 70);
    EXPECT_EQ(alone.cached_tokens, 0);
  }
  const SchedulerStatus status = scheduler.status();
  EXPECT_EQ(status.prompt_tokens, 70u * 4 + 9 + 1 + 64 + 30);
  EXPECT_EQ(status.prefix_hits, 3u);
  EXPECT_EQ(status.prefix_tokens, 210u);
  EXPECT_GT(status.pages_kept, 0);
  EXPECT_EQ(status.pages_kept, status.pages_in_use);
}

TEST(PrefixCache, TheNextTurnTakesPromptAndAnswer) {
  Model model = load();
  Scheduler scheduler(model);
  GenerateRequest r = request(40, 5, 3, 20);
  const GenerateResult first = ask(scheduler, r);
  r.prompt.ids.insert(r.prompt.ids.end(), first.ids.begin(), first.ids.end());
  r.prompt.ids.insert(r.prompt.ids.end(), {7, 8, 9});
  const GenerateResult second = ask(scheduler, r);
  EXPECT_EQ(second.cached_tokens, 45 + 19);
  EXPECT_EQ(second.ids, model.generate(r).ids);
}

TEST(PrefixCache, RunningSequencesShareToo) {
  Model model = load();
  Scheduler scheduler(model);
  const GenerateRequest a = request(70, 3, 1, 30);
  const GenerateRequest b = request(70, 8, 2, 30);
  std::vector<int32_t> got_a;
  std::vector<int32_t> got_b;
  scheduler.add(a, 1, [&](int64_t, GenerateResult&& result) { got_a = result.ids; });
  scheduler.step();
  scheduler.add(b, 1, [&](int64_t, GenerateResult&& result) {
    EXPECT_EQ(result.cached_tokens, 70);
    got_b = result.ids;
  });
  while (scheduler.step()) {
  }
  EXPECT_EQ(got_a, model.generate(a).ids);
  EXPECT_EQ(got_b, model.generate(b).ids);
}

TEST(PrefixCache, CanBeOffAndDoesNotHelpWhoAsksForThePromptsLogprobs) {
  Model model = load();
  Scheduler off(model, {.prefix_cache = false});
  ask(off, request(70, 3, 1));
  EXPECT_EQ(ask(off, request(70, 3, 1)).cached_tokens, 0);
  EXPECT_EQ(off.status().pages_in_use, 0);
  Scheduler on(model);
  ask(on, request(70, 3, 1));
  GenerateRequest r = request(70, 3, 1);
  r.prompt_logprobs = true;
  const GenerateResult result = ask(on, r);
  EXPECT_EQ(result.cached_tokens, 0);
  EXPECT_EQ(result.prompt_logprobs.size(), 72u);
}

TEST(PrefixCache, GivesItsPagesToWhoNeedsThem) {
  LoadOptions options;
  options.folder = test_paths::golden() + "/r1-tiny";
  options.threads = 1;
  options.context = 256;  // four pages of 64 positions
  Model model = Model::load(options);
  Scheduler scheduler(model);
  const int64_t total = scheduler.status().pages_total;
  for (int32_t salt = 1; salt < 12; ++salt) {
    const GenerateRequest r = request(0, 150, salt, 90);
    const GenerateResult result = ask(scheduler, r);
    ASSERT_FALSE(result.error.has_value()) << result.error->what();
    EXPECT_EQ(result.ids, model.generate(r).ids);
    EXPECT_LE(scheduler.status().pages_in_use, total);
  }
  EXPECT_EQ(scheduler.status().preemptions, 0u);
}

TEST(PrefixCache, WorksBesideDrafts) {
  Model drafting = load("/r1-tiny", Speculation::on);
  Model model = load();
  Scheduler scheduler(drafting);
  for (const int32_t own : {9, 1, 64}) {
    const GenerateRequest r = request(70, own, own, 16);
    EXPECT_EQ(ask(scheduler, r).ids, model.generate(r).ids);
  }
  EXPECT_EQ(scheduler.status().prefix_hits, 2u);
}

TEST(Fairness, ALongPromptLeavesOthersATokenInEveryPass) {
  Model model = load();
  const GenerateRequest quick = request(0, 5, 1, 30);
  const GenerateRequest slow = request(0, 400, 2, 3);
  Scheduler scheduler(model, {.shared_prompt_rows = 16});
  int64_t tokens = 0;
  GenerateRequest told = quick;
  told.on_step = [&](const GenerateStep&) {
    ++tokens;
    return true;
  };
  std::vector<int32_t> got_quick;
  std::vector<int32_t> got_slow;
  scheduler.add(told, 1, [&](int64_t, GenerateResult&& result) { got_quick = result.ids; });
  scheduler.step();
  scheduler.add(slow, 1, [&](int64_t, GenerateResult&& result) { got_slow = result.ids; });
  for (int64_t pass = 1; pass < 20; ++pass) {
    const uint64_t rows = scheduler.status().rows;
    ASSERT_TRUE(scheduler.step());
    EXPECT_EQ(tokens, pass + 1);
    EXPECT_EQ(scheduler.status().rows - rows, 17u);
  }
  while (scheduler.step()) {
  }
  EXPECT_EQ(got_quick, model.generate(quick).ids);
  EXPECT_EQ(got_slow, model.generate(slow).ids);
}

TEST(Fairness, AShortPromptDoesNotWaitForALongOne) {
  Model model = load();
  Scheduler scheduler(model, {.sweep_rows = 32});
  bool short_done = false;
  bool long_done = false;
  scheduler.add(request(0, 600, 2, 1), 1, [&](int64_t, GenerateResult&&) { long_done = true; });
  scheduler.step();
  scheduler.add(request(0, 8, 3, 4), 1, [&](int64_t, GenerateResult&&) {
    short_done = true;
    EXPECT_FALSE(long_done);
  });
  while (scheduler.step()) {
  }
  EXPECT_TRUE(short_done);
  EXPECT_TRUE(long_done);
}

}  // namespace
}  // namespace fathom
