// What the tests of the committed models share: their files, their questions, asking greedily.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "fathom/model.h"
#include "tests/paths.h"

namespace fathom {

inline std::string repository_path(const std::string& rest) {
  return test_paths::golden() + "/../../" + rest;
}

inline nlohmann::json read_document(const std::string& rest) {
  const std::string path = repository_path(rest);
  return parse_json(read_text(path), path);
}

// turns: texts of user and assistant in turn, as the questions' files hold them.
inline Prompt render_turns(const Model& model, const nlohmann::json& turns) {
  nlohmann::json messages = nlohmann::json::array();
  for (const nlohmann::json& turn : turns) {
    const char* role = messages.size() % 2 == 0 ? "user" : "assistant";
    messages.push_back({{"role", role}, {"content", turn}});
  }
  return model.render(messages.dump());
}

inline GenerateResult answer_greedily(Model& model, const Prompt& prompt) {
  GenerateRequest request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.max_tokens = 300;
  return model.generate(request);
}

// Asks the 50 questions that training never saw; each needs a thought and an end. Returns how many
// answers are right and prints the others. each(prompt, result) is called for every question.
template <typename Each>
int count_right(Model& model, Each each) {
  const nlohmann::json questions = read_document("tests/demo/questions.json");
  EXPECT_EQ(questions.size(), 50u);
  int right = 0;
  for (const nlohmann::json& question : questions) {
    SCOPED_TRACE(question.dump());
    const Prompt prompt = render_turns(model, question["turns"]);
    EXPECT_TRUE(prompt.opens_thought);
    const GenerateResult result = answer_greedily(model, prompt);
    EXPECT_EQ(result.finish_reason, FinishReason::stop);
    EXPECT_FALSE(result.reasoning.empty());
    if (result.content == question["answer"]) {
      ++right;
    } else {
      std::printf("%s\n  thought %s\n  answer %s\n", question.dump().c_str(),
                  result.reasoning.c_str(), result.content.c_str());
    }
    each(prompt, result);
  }
  return right;
}

}  // namespace fathom
