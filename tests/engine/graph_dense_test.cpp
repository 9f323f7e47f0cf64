// Four graphs against the engine's own forward pass of the same weights.
#include <cmath>

#include "fathom/model.h"
#include "tests/graph/graph_test.h"

namespace fathom {
namespace {

std::vector<int32_t> some_ids(int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * 89 + 7) % 261 + 2));
  return ids;
}

std::vector<float> last_logits(Model& model, const std::vector<int32_t>& ids) {
  ForwardInput input;
  input.ids = ids;
  input.last_logits_only = true;
  return model.forward(input).logits;
}

std::vector<int32_t> greedy(Model& model, const std::vector<int32_t>& ids) {
  GenerateRequest request;
  request.prompt.ids = ids;
  request.sampling.temperature = 0;
  request.max_tokens = 4;
  request.ignore_eos = true;
  return model.generate(request).ids;
}

class GraphAgainstDense : public testing::TestWithParam<const char*> {};

TEST_P(GraphAgainstDense, LogitsAndGreedyTokens) {
  REQUIRE_GRAPH_RUNTIME();
  TemporaryFolder folder;
  export_golden(GetParam(), folder.path());
  LoadOptions options;
  options.folder = golden(GetParam());
  options.threads = 1;
  options.kv = KvPrecision::f32;
  Model dense = Model::load(options);
  options.folder = folder.path();
  Model graphs = Model::load(options);
  for (const int64_t n : {1, 38, 63, 64, 65, 128, 200}) {
    const std::vector<int32_t> ids = some_ids(n);
    const std::vector<float> expected = last_logits(dense, ids);
    const std::vector<float> given = last_logits(graphs, ids);
    ASSERT_EQ(given.size(), expected.size());
    for (size_t i = 0; i < given.size(); ++i) ASSERT_NEAR(given[i], expected[i], 1e-3) << n;
    EXPECT_EQ(greedy(graphs, ids), greedy(dense, ids)) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GraphAgainstDense, testing::Values("qwen2-tiny", "llama3-tiny"),
                         [](const auto& info) { return std::string(info.param).substr(0, 5); });

}  // namespace
}  // namespace fathom
