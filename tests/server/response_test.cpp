// Answers in OpenAI's shapes: what a model of this size would not say by itself.
#include "server/openai/response.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/openai/logprobs.h"

namespace fathom::server {
namespace {

using nlohmann::json;

const AnswerHead kChat = {Endpoint::chat_completions, "0a", 5, "m"};
const AnswerHead kCompletion = {Endpoint::completions, "0b", 5, "m"};

PositionLogprobs position(const std::string& bytes, std::vector<std::string> others = {}) {
  PositionLogprobs position;
  position.chosen = {7, -0.5F, bytes};
  position.top.push_back(position.chosen);
  for (std::string& other : others) position.top.push_back({8, -1.5F, std::move(other)});
  return position;
}

TEST(Response, TellsToolCalls) {
  GenerateResult result;
  result.reasoning = "hm";
  result.tool_calls = {{"f", R"({"a": 1})"}, {"g", "{}"}};
  const json choice = json::parse(choice_json(kChat, {2, false, nullptr}, result));
  EXPECT_EQ(choice["index"], 2);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const json& message = choice["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning_content"], "hm");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"a": 1})");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
  // Cut off behind a whole call: the client must know.
  result.finish_reason = FinishReason::length;
  EXPECT_STREQ(finish_reason_text(result), "length");
}

TEST(Response, StreamsToolCalls) {
  GenerateStep step;
  EXPECT_EQ(tool_delta(kChat, 0, step), "");
  step.tools = {{ToolEvent::Kind::begins, 1, "f"},
                {ToolEvent::Kind::arguments, 1, "{\"a\""},
                {ToolEvent::Kind::ends, 1, ""}};
  const json delta = json::parse(tool_delta(kChat, 0, step));
  ASSERT_EQ(delta["tool_calls"].size(), 2u);
  EXPECT_EQ(delta["tool_calls"][0]["index"], 1);
  EXPECT_EQ(delta["tool_calls"][0]["id"], tool_call_id(kChat, 0, 1));
  EXPECT_EQ(delta["tool_calls"][0]["function"], (json{{"name", "f"}, {"arguments", ""}}));
  EXPECT_EQ(delta["tool_calls"][1]["index"], 1);
  EXPECT_FALSE(delta["tool_calls"][1].contains("id"));
  EXPECT_EQ(delta["tool_calls"][1]["function"], (json{{"arguments", "{\"a\""}}));
  step.tools = {{ToolEvent::Kind::ends, 1, ""}, {ToolEvent::Kind::broken, 2, ""}};
  EXPECT_EQ(tool_delta(kChat, 0, step), "");
}

// Two tokens of one character: texts alone could not be joined again.
TEST(Response, TellsTheBytesOfHalfCharacters) {
  GenerateResult result;
  result.content = "😊";
  result.logprobs = {position("\xf0\x9f\x98"), position("\x8a", {"x"})};
  const json chat = json::parse(choice_json(kChat, {0, true, nullptr}, result))["logprobs"];
  ASSERT_EQ(chat["content"].size(), 2u);
  EXPECT_EQ(chat["content"][0]["bytes"], (json{240, 159, 152}));
  EXPECT_EQ(chat["content"][1]["bytes"], (json{138}));
  EXPECT_EQ(chat["content"][1]["top_logprobs"][1]["token"], "x");
  EXPECT_DOUBLE_EQ(chat["content"][1]["logprob"], -0.5);

  const json old = json::parse(choice_json(kCompletion, {0, true, nullptr}, result))["logprobs"];
  EXPECT_EQ(old["tokens"], (json{"bytes:\\xf0\\x9f\\x98", "bytes:\\x8a"}));
  EXPECT_EQ(old["text_offset"], (json{0, 1}));
  EXPECT_EQ(old["token_logprobs"], (json{-0.5, -0.5}));
  EXPECT_EQ(old["top_logprobs"][1], (json{{"bytes:\\x8a", -0.5}, {"x", -1.5}}));
}

TEST(Response, EchoesThePromptWithItsProbabilities) {
  GenerateResult result;
  result.content = "cd";
  result.prompt_logprobs = {position("ä"), position("b")};
  result.logprobs = {position("cd")};
  Echo echo = {"äb", "<bos>", false};
  const json given = json::parse(choice_json(kCompletion, {0, true, &echo}, result));
  EXPECT_EQ(given["text"], "äbcd");
  EXPECT_EQ(given["logprobs"]["tokens"], (json{"<bos>", "ä", "b", "cd"}));
  EXPECT_TRUE(given["logprobs"]["token_logprobs"][0].is_null());
  EXPECT_TRUE(given["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(given["logprobs"]["text_offset"], (json{0, 0, 1, 2}));
  echo = {"xäb", "x", true};
  const json ids = json::parse(choice_json(kCompletion, {0, true, &echo}, result));
  EXPECT_EQ(ids["logprobs"]["text_offset"], (json{0, 1, 2, 3}));
}

TEST(Response, ImpossibleTokensHaveANumber) {
  GenerateResult result;
  PositionLogprobs impossible = position("a");
  impossible.chosen.logprob = -std::numeric_limits<float>::infinity();
  result.logprobs = {impossible};
  const json chat = json::parse(choice_json(kChat, {0, true, nullptr}, result))["logprobs"];
  EXPECT_EQ(chat["content"][0]["logprob"], -9999);
}

}  // namespace
}  // namespace fathom::server
