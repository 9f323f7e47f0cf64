// Weights that cannot be read concern the requests of that pass, nobody else.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "engine/generate.h"
#include "engine/scheduler.h"
#include "experts/resident_store.h"
#include "kernels/dispatch.h"
#include "model/deepseek/forward.h"
#include "tests/paths.h"

namespace fathom {
namespace {

constexpr const char* kMessage = "model-00001-of-000001.safetensors: cannot read at offset 4096";

// A store that fails at one call, or with one layer.
class FailingStore : public ExpertStore {
 public:
  FailingStore(const KernelContext& context, std::vector<std::vector<GatedMlp>> experts)
      : store_(context, std::move(experts), 64) {}
  void run(int64_t layer, std::span<const ExpertGroup> groups, Span2d<const float> x,
           const Deliver& deliver, const CancelToken* cancel) override {
    if (calls++ == fails_at || layer == failing_layer) throw Error(ErrorKind::io, kMessage);
    store_.run(layer, groups, x, deliver, cancel);
  }
  ExpertStats stats() const override { return store_.stats(); }

  int calls = 0;
  int fails_at = -1;
  int64_t failing_layer = -1;

 private:
  ResidentExpertStore store_;
};

class SchedulerFaults : public testing::Test {
 protected:
  explicit SchedulerFaults(Speculation speculation = Speculation::on)
      : engine_(options()), pool_(1), context_(best_kernels(), pool_) {
    const Checkpoint checkpoint = Checkpoint::open(options().folder);
    const std::string path = options().folder + "/config.json";
    const DeepseekConfig config = parse_deepseek_config(read_text(path), path);
    WeightChoice choice;
    choice.mtp = true;
    weights_ = load_deepseek_weights(checkpoint, config, choice, pool_, nullptr);
    store_ = std::make_unique<FailingStore>(context_, std::move(weights_.routed_experts));
    model_ = std::make_unique<DeepseekModel>(config, weights_, *store_, context_, 64);
    judge_ = std::make_unique<SpeculationJudge>(speculation, true);
    parts_ = parts_of(engine_, *judge_);
    parts_.model = model_.get();
  }

  static LoadOptions options() {
    LoadOptions options;
    options.folder = test_paths::golden() + "/r1-tiny";
    options.threads = 1;
    options.mtp = true;
    return options;
  }
  static GenerateRequest request(int32_t tokens, int32_t salt) {
    GenerateRequest r;
    for (int32_t i = 0; i < tokens; ++i) r.prompt.ids.push_back((i * 37 + salt) % 263);
    r.max_tokens = 15;
    r.ignore_eos = true;
    r.sampling.temperature = 0.8;
    return r;
  }

  Engine engine_;
  ThreadPool pool_;
  KernelContext context_;
  DeepseekWeights weights_;
  std::unique_ptr<FailingStore> store_;
  std::unique_ptr<DeepseekModel> model_;
  std::unique_ptr<SpeculationJudge> judge_;
  ModelParts parts_;
};

TEST_F(SchedulerFaults, FailTheRequestsOfThePassAndLeaveTheirCachesAsBefore) {
  const GenerateRequest late = request(12, 8);
  const auto expected = generate(parts_, late).ids;
  Cache cache;
  GenerateRequest first = request(40, 3);
  first.cache = &cache;
  const auto first_alone = generate(parts_, request(40, 3)).ids;

  SequenceScheduler scheduler(parts_, {.parallel = 2});
  std::vector<GenerateResult> got(3);
  const auto into = [&got](size_t i) {
    return [&got, i](int64_t, GenerateResult&& result) { got[i] = std::move(result); };
  };
  scheduler.add(first, 1, into(0));
  scheduler.add(request(9, 5), 1, into(1));
  scheduler.add(late, 1, into(2));
  for (int i = 0; i < 3; ++i) scheduler.step(nullptr);
  const int64_t cached = cache.length();
  EXPECT_GT(cached, 40);
  store_->fails_at = store_->calls;
  while (scheduler.step(nullptr)) {
  }
  for (const size_t i : {0, 1}) {
    ASSERT_TRUE(got[i].error.has_value());
    EXPECT_STREQ(got[i].error->what(), kMessage);
    EXPECT_EQ(got[i].error->kind(), ErrorKind::io);
  }
  EXPECT_FALSE(got[2].error.has_value());
  EXPECT_EQ(got[2].ids, expected);

  EXPECT_EQ(cache.length(), cached);
  const GenerateResult again = generate(parts_, first);
  EXPECT_EQ(again.ids, first_alone);
  EXPECT_GT(again.cached_tokens, 30);
}

TEST_F(SchedulerFaults, InThePromptOfSamplesAreRepeatedByTheNextSample) {
  GenerateRequest r = request(40, 3);
  GenerateRequest second = r;
  second.sampling.choice = 1;
  const auto expected = generate(parts_, second).ids;
  store_->fails_at = store_->calls + 1;
  const auto results = generate_samples(parts_, r, 2, 1);
  EXPECT_TRUE(results[0].error.has_value());
  EXPECT_FALSE(results[1].error.has_value());
  EXPECT_EQ(results[1].ids, expected);
  EXPECT_THROW(
      {
        store_->fails_at = store_->calls;
        generate(parts_, r);
      },
      Error);
}

TEST_F(SchedulerFaults, InTheMtpLayerEndTheDraftingOnly) {
  const GenerateRequest r = request(20, 3);
  const auto expected = generate(parts_, r).ids;
  store_->failing_layer = engine_.shape().num_hidden_layers;
  const GenerateResult result = generate(parts_, r);
  EXPECT_EQ(result.ids, expected);
  EXPECT_FALSE(result.speculation.on);
  EXPECT_NE(result.speculation.reason.find(kMessage), std::string::npos);
}

}  // namespace
}  // namespace fathom
