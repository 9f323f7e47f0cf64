// Models of graphs behind the engine's own loop: generation, turns, company, limits.
#include <algorithm>

#include "engine/graph_backend.h"
#include "fathom/model.h"
#include "graph/export/qhx_export.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

enum class Form { four_graphs, bundle };

class GraphModel : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    REQUIRE_GRAPH_RUNTIME();
    if (GetParam() == Form::four_graphs) {
      export_golden("qwen2-tiny", folder_ / "m", 64, 16);
      return;
    }
    QhxExport options;
    options.out_folder = folder_ / "m";
    options.max_ctx = 64;
    options.shards = 2;
    GenerationConfig generation;
    generation.eos_token_ids = {1};
    export_qhx_bundle(Checkpoint::open(golden("qwen2-tiny")),
                      read_decoder_shape(golden("qwen2-tiny")), generation, options);
  }

  Model load(GraphLoadOptions graph = {}) const {
    LoadOptions options;
    options.folder = folder_ / "m";
    options.graph = std::move(graph);
    options.threads = 1;  // the runtime's threads wait busily
    return Model::load(options);
  }

  static GenerateRequest request(std::span<const int32_t> prompt, int64_t count) {
    GenerateRequest request;
    request.prompt.ids.assign(prompt.begin(), prompt.end());
    request.sampling.temperature = 0;
    request.max_tokens = count;
    return request;
  }

  TemporaryFolder folder_;
  const std::vector<int32_t> greedy_ = golden_greedy("qwen2-tiny");  // 12 of a prompt, then 24
};

std::vector<int32_t> part(const std::vector<int32_t>& ids, size_t begin, size_t end) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin),
          ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

TEST_P(GraphModel, ContinuesAsTheReference) {
  Model model = load();
  EXPECT_EQ(model.generate(request(part(greedy_, 0, 12), 24)).ids, part(greedy_, 12, 36));
  EXPECT_EQ(model.info().context.tokens, 64);
  EXPECT_FALSE(model.info().graphs.empty());
  EXPECT_NE(model.info().remark.find("one sequence"), std::string::npos);
  EXPECT_GT(model.info().weight_bytes, 100'000U);
}

TEST_P(GraphModel, StopsAtTheModelsEnd) {
  Model model = load();
  GenerateRequest one = request(part(greedy_, 0, 12), 24);
  one.sampling.logit_bias = {{1, 100.0}};  // the exported eos_token_id
  const GenerateResult result = model.generate(one);
  EXPECT_EQ(result.finish_reason, FinishReason::stop);
  EXPECT_EQ(result.ids, std::vector<int32_t>{1});
}

// A second turn goes on behind the first one, a changed one from where it differs.
TEST_P(GraphModel, GoesOnAndBack) {
  Model model = load();
  Cache cache;
  GenerateRequest first = request(part(greedy_, 0, 12), 8);
  first.cache = &cache;
  model.generate(first);
  GenerateRequest second = request(part(greedy_, 0, 20), 8);
  second.cache = &cache;
  const GenerateResult result = model.generate(second);
  EXPECT_EQ(result.ids, part(greedy_, 20, 28));
  EXPECT_GE(result.cached_tokens, 18);
  GenerateRequest other = request(std::vector<int32_t>{greedy_[0], 9, 8, 7}, 4);
  other.cache = &cache;
  model.generate(other);
  GenerateRequest again = request(part(greedy_, 0, 12), 24);
  again.cache = &cache;
  EXPECT_EQ(model.generate(again).ids, part(greedy_, 12, 36));
}

// Two requests take turns; neither sees the other's keys and values.
TEST_P(GraphModel, TakesRequestsOneAfterAnother) {
  Model model = load();
  const std::vector<GenerateRequest> requests = {request(part(greedy_, 0, 12), 10),
                                                 request(part(greedy_, 3, 9), 10),
                                                 request(part(greedy_, 0, 12), 10)};
  const std::vector<GenerateResult> results = model.generate(requests);
  EXPECT_EQ(results[0].ids, part(greedy_, 12, 22));
  EXPECT_EQ(results[2].ids, results[0].ids);
  EXPECT_EQ(results[1].ids, load().generate(requests[1]).ids);
  const auto samples = model.generate_samples(requests[0], 2);
  EXPECT_EQ(samples[1].ids, results[0].ids);
}

TEST_P(GraphModel, FillsTheContextAndNoMore) {
  Model model = load();
  std::vector<int32_t> ids(60, 5);
  const GenerateResult full = model.generate([&] {
    GenerateRequest one = request(ids, 0);
    one.ignore_eos = true;
    return one;
  }());
  EXPECT_EQ(full.finish_reason, FinishReason::length);
  EXPECT_EQ(full.ids.size() + ids.size(), 64U);
  ids.resize(65, 5);
  const std::string message = error_of([&] { model.generate(request(ids, 4)); });
  EXPECT_TRUE(contains(message, "65") && contains(message, "64")) << message;
}

TEST_P(GraphModel, SaysWhatItCannotDo) {
  Model model = load();
  ForwardInput input;
  input.ids = {5, 6};
  input.hidden_states = true;
  EXPECT_TRUE(contains(error_of([&] { model.forward(input); }), "hidden states"));
  ForwardInput shifted;
  shifted.ids = {5, 6};
  shifted.positions = {3, 4};
  EXPECT_TRUE(contains(error_of([&] { model.forward(shifted); }), "count positions themselves"));
  GraphLoadOptions wrong;
  wrong.provider = "gpu";
  EXPECT_TRUE(contains(error_of([&] { load(wrong); }), "'gpu' is none of cpu, qnn"));
  GraphLoadOptions npu;
  npu.require_npu = true;
  EXPECT_TRUE(contains(error_of([&] { load(npu); }), "the QNN provider is not there"));
}

TEST_P(GraphModel, WritesAProfileThatCanBeSummarised) {
  GraphLoadOptions options;
  options.profile = folder_ / "profile";
  load(options).generate(request(part(greedy_, 0, 12), 2));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.path().filename().string().starts_with("profile_") ? 1 : 0;
  }
  EXPECT_EQ(files, GetParam() == Form::four_graphs ? 4 : 3);
}

INSTANTIATE_TEST_SUITE_P(Forms, GraphModel, testing::Values(Form::four_graphs, Form::bundle),
                         [](const auto& info) {
                           return info.param == Form::four_graphs ? "FourGraphs" : "Bundle";
                         });

}  // namespace
}  // namespace fathom
