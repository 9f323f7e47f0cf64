// The demo model's dense twin: the same questions, and the outputs that torch computes in float32
// from the stored weights (tools/demo/reference.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/npy.h"
#include "fathom/model.h"
#include "tests/demo/asking.h"

namespace fathom {
namespace {

const std::string kGolden = "tests/golden/demo-dense/";

Model load_twin(KvPrecision kv = KvPrecision::bf16) {
  LoadOptions options;
  options.folder = repository_path("models/demo-dense");
  options.kv = kv;
  return Model::load(options);
}

TEST(DenseTwin, AnswersQuestionsItNeverSaw) {
  Model model = load_twin();
  // Counting letters it has learnt by half: see its card.
  EXPECT_GE(count_right(model, [](const Prompt&, const GenerateResult&) {}), 42);
}

TEST(DenseTwin, WritesWhatTorchWrites) {
  Model model = load_twin(KvPrecision::f32);
  const nlohmann::json golden = read_document(kGolden + "golden.json");
  ASSERT_EQ(golden["greedy"].size(), 10u);
  for (const nlohmann::json& expected : golden["greedy"]) {
    SCOPED_TRACE(expected["turns"].dump());
    const Prompt prompt = render_turns(model, expected["turns"]);
    EXPECT_EQ(prompt.ids, expected["prompt_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(answer_greedily(model, prompt).ids, expected["ids"].get<std::vector<int32_t>>());
  }
}

TEST(DenseTwin, HasTheLogitsOfTorch) {
  Model model = load_twin(KvPrecision::f32);
  const nlohmann::json golden = read_document(kGolden + "golden.json");
  ASSERT_EQ(golden["logits"].size(), 3u);
  for (const nlohmann::json& expected : golden["logits"]) {
    const std::string file = expected["file"];
    SCOPED_TRACE(file);
    const NpyArray logits = read_npy(repository_path(kGolden + file));
    ForwardInput input;
    input.ids = expected["input_ids"].get<std::vector<int32_t>>();
    const ForwardOutput output = model.forward(input);
    ASSERT_EQ(output.logits.size(), logits.values.size());
    for (size_t i = 0; i < logits.values.size(); ++i) {
      ASSERT_NEAR(output.logits[i], logits.values[i], 2e-3f) << i;
    }
  }
}

}  // namespace
}  // namespace fathom
