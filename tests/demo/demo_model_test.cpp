// The committed demo model: 50 questions that training never saw, asked greedily.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fathom/model.h"
#include "tests/demo/asking.h"

namespace fathom {
namespace {

Model load_demo() {
  LoadOptions options;
  options.folder = repository_path("models/demo");
  options.mtp = true;
  return Model::load(options);
}

// What the MTP layer would have drafted, against what came: how many of `made` after the first.
int64_t drafts_right(Model& model, const Prompt& prompt, const std::vector<int32_t>& made) {
  ForwardInput input;
  input.ids = prompt.ids;
  input.ids.insert(input.ids.end(), made.begin(), made.end());
  input.logits = false;
  input.mtp_logits = true;
  const ForwardOutput output = model.forward(input);
  int64_t right = 0;
  // Row i comes from hidden state i and token i + 1, and is for token i + 2.
  for (size_t i = prompt.ids.size() - 1; i + 2 < input.ids.size(); ++i) {
    const auto row = output.mtp_logits.begin() + static_cast<int64_t>(i) * output.vocab;
    right += std::max_element(row, row + output.vocab) - row == input.ids[i + 2];
  }
  return right;
}

TEST(DemoModel, AnswersQuestionsItNeverSaw) {
  Model model = load_demo();
  int64_t drafts = 0;
  int64_t hits = 0;
  const int right = count_right(model, [&](const Prompt& prompt, const GenerateResult& result) {
    hits += drafts_right(model, prompt, result.ids);
    drafts += static_cast<int64_t>(result.ids.size()) - 1;
  });
  EXPECT_GE(right, 47);
  EXPECT_GE(static_cast<double>(hits), 0.85 * static_cast<double>(drafts));
}

TEST(DemoModel, AnswersTheQuestionOfTheReadme) {
  Model model = load_demo();
  const Prompt prompt = model.render(R"([{"role":"user","content":"What is 47+85?"}])");
  const GenerateResult result = answer_greedily(model, prompt);
  EXPECT_EQ(result.content, "The answer is 132.");
  EXPECT_NE(result.reasoning.find("7+5+0=12"), std::string::npos) << result.reasoning;
}

}  // namespace
}  // namespace fathom
