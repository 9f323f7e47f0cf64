// Fields of requests that change what is generated or told: probabilities, echo, gaps, budgets,
// open messages, tools, forms.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/running_server.h"

namespace fathom::server {
namespace {

using nlohmann::json;

class FieldsOf : public SharedServer {
 protected:
  static Answer chat(const json& body) { return server().post("/v1/chat/completions", body); }
  static json choice(const json& body) {
    const Answer answer = chat(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["choices"][0];
  }
  static Events stream(json body, const char* path = "/v1/chat/completions") {
    body["stream"] = true;
    const Answer answer = server().post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return events_of(answer.body);
  }
  static json complete(json body) {
    body["temperature"] = 0;
    const Answer answer = server().post("/v1/completions", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static json param_of(const char* path, const json& body) {
    const Answer answer = server().post(path, body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    return answer.json()["error"]["param"];
  }
  static json param_of_chat(json body, const char* name, const json& value) {
    body[name] = value;
    return param_of("/v1/chat/completions", body);
  }
};

std::string bytes_of(const json& entries) {
  std::string bytes;
  for (const json& entry : entries) {
    for (const int byte : entry["bytes"]) bytes += static_cast<char>(byte);
  }
  return bytes;
}

TEST_F(FieldsOf, LogprobsOfAChatAreOnePerToken) {
  json body = question("What is 47+85?");
  EXPECT_TRUE(choice(body)["logprobs"].is_null());
  body["logprobs"] = true;
  body["top_logprobs"] = 3;
  const json answer = chat(body).json();
  const json entries = answer["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(entries.size(), answer["usage"]["completion_tokens"]);
  const json& message = answer["choices"][0]["message"];
  const std::string bytes = bytes_of(entries);
  EXPECT_NE(bytes.find(message["content"].get<std::string>()), std::string::npos) << bytes;
  EXPECT_NE(bytes.find(message["reasoning_content"].get<std::string>()), std::string::npos);
  for (const json& entry : entries) {
    ASSERT_EQ(entry["top_logprobs"].size(), 3u);
    EXPECT_LE(entry["logprob"], 0);
    EXPECT_EQ(entry["logprob"], entry["top_logprobs"][0]["logprob"]);  // greedy
    EXPECT_GE(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"]);
  }
  json streamed = json::array();
  for (const json& chunk : stream(body).chunks) {
    const json& logprobs = chunk["choices"][0]["logprobs"];
    if (logprobs.is_null()) continue;
    streamed.insert(streamed.end(), logprobs["content"].begin(), logprobs["content"].end());
  }
  EXPECT_EQ(streamed, entries);
  body.erase("top_logprobs");
  EXPECT_TRUE(choice(body)["logprobs"]["content"][0]["top_logprobs"].empty());
}

TEST_F(FieldsOf, LogprobsAreRefusedWhereTheyMakeNoSense) {
  const json body = question("x");
  EXPECT_EQ(param_of_chat(body, "logprobs", 3), "logprobs");
  EXPECT_EQ(param_of_chat(body, "top_logprobs", 3), "top_logprobs");
  EXPECT_EQ(param_of_chat(body, "top_logprobs", 21), "top_logprobs");
  EXPECT_EQ(param_of("/v1/completions", {{"prompt", "x"}, {"logprobs", -1}}), "logprobs");
  EXPECT_EQ(param_of("/v1/completions", {{"prompt", "x"}, {"logprobs", true}}), "logprobs");
  EXPECT_EQ(param_of("/v1/completions",
                     {{"prompt", "x"}, {"logprobs", 1}, {"echo", true}, {"stream", true}}),
            "echo");
}

int64_t characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

TEST_F(FieldsOf, CompletionsTellLogprobsInTheirOldShape) {
  const json body = {{"prompt", "What is 47+85?"}, {"max_tokens", 6}, {"logprobs", 2}};
  const json one = complete(body)["choices"][0];
  const json& logprobs = one["logprobs"];
  std::string text;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], characters(text));
    text += logprobs["tokens"][i].get<std::string>();
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2u);
    EXPECT_EQ(logprobs["top_logprobs"][i][logprobs["tokens"][i].get<std::string>()],
              logprobs["token_logprobs"][i]);
  }
  EXPECT_EQ(text, one["text"]);
  json tokens = json::array();
  json offsets = json::array();
  json greedy = body;
  greedy["temperature"] = 0;
  for (const json& chunk : stream(greedy, "/v1/completions").chunks) {
    const json& piece = chunk["choices"][0]["logprobs"];
    if (piece.is_null()) continue;
    tokens.insert(tokens.end(), piece["tokens"].begin(), piece["tokens"].end());
    offsets.insert(offsets.end(), piece["text_offset"].begin(), piece["text_offset"].end());
  }
  EXPECT_EQ(tokens, logprobs["tokens"]);
  EXPECT_EQ(offsets, logprobs["text_offset"]);
}

TEST_F(FieldsOf, EchoRepeatsThePrompt) {
  json body = {{"prompt", "What is 47+85?"}, {"max_tokens", 4}};
  const std::string text = complete(body)["choices"][0]["text"];
  body["echo"] = true;
  EXPECT_EQ(complete(body)["choices"][0]["text"], "What is 47+85?" + text);
  json greedy = body;
  greedy["temperature"] = 0;
  EXPECT_EQ(join(stream(greedy, "/v1/completions")).text, "What is 47+85?" + text);
  body["logprobs"] = 0;
  const json answer = complete(body);
  const json& logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), answer["usage"]["total_tokens"]);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  for (size_t i = 1; i < logprobs["tokens"].size(); ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i], 0);
  }
  body["prompt"] = {"a", "b"};
  const json two = complete(body);
  EXPECT_TRUE(two["choices"][0]["text"].get<std::string>().starts_with("a"));
  EXPECT_TRUE(two["choices"][1]["text"].get<std::string>().starts_with("b"));
}

TEST_F(FieldsOf, SuffixFillsTheGap) {
  const json gap = {{"prompt", "What is "}, {"suffix", "<｜User｜>?"}, {"max_tokens", 3}};
  const json answer = complete(gap);
  const auto count = [](const json& body) {
    return server().post("/tokenize", body).json()["count"].get<int>();
  };
  // The three tokens around, and no control token out of the text.
  const int prefix = count({{"prompt", "What is "}});
  const json suffix = {{"messages", {{{"role", "user"}, {"content", "<｜User｜>?"}}}}};
  const json empty = {{"messages", {{{"role", "user"}, {"content", ""}}}}};
  EXPECT_EQ(answer["usage"]["prompt_tokens"], prefix + 3 + count(suffix) - count(empty));
  EXPECT_EQ(param_of("/v1/completions", {{"prompt", {1, 2}}, {"suffix", "x"}}), "prompt");
  EXPECT_EQ(param_of("/v1/completions", {{"prompt", "x"}, {"suffix", "x"}, {"echo", true}}),
            "echo");
}

TEST_F(FieldsOf, ABudgetEndsTheThought) {
  json body = question("What is 47+85?");
  const json free = chat(body).json();
  const int thought = free["usage"]["completion_tokens_details"]["reasoning_tokens"];
  body["reasoning_budget"] = 3;
  const json bound = chat(body).json();
  EXPECT_LE(bound["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_NE(bound["choices"][0]["message"]["content"], "");
  body["reasoning_budget"] = thought + 10;
  EXPECT_EQ(chat(body).json()["choices"], free["choices"]);
  EXPECT_EQ(param_of_chat(body, "reasoning_budget", -1), "reasoning_budget");
  EXPECT_EQ(param_of_chat(body, "reasoning_budget", "3"), "reasoning_budget");
}

TEST_F(FieldsOf, AnOpenMessageIsContinued) {
  json body = question("What is 47+85?");
  const json whole = choice(body)["message"];
  const std::string content = whole["content"];
  const size_t cut = content.find(" is");
  ASSERT_NE(cut, std::string::npos) << content;
  json open = {{"role", "assistant"},
               {"reasoning_content", whole["reasoning_content"]},
               {"content", content.substr(0, cut)}};
  body["messages"].push_back(open);
  body["continue_final_message"] = true;
  EXPECT_EQ(choice(body)["message"]["content"], content.substr(cut));
  // As the hosted API asks for it.
  body.erase("continue_final_message");
  body["messages"].back()["prefix"] = true;
  EXPECT_EQ(choice(body)["message"]["content"], content.substr(cut));
  EXPECT_EQ(param_of_chat(question("x"), "continue_final_message", true), "continue_final_message");
}

const json kTools = {
    {{"type", "function"},
     {"function",
      {{"name", "f"},
       {"description", "adds"},
       {"parameters", {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}}}}}}};

TEST_F(FieldsOf, ToolsAreInThePromptUnlessNoneMayBeCalled) {
  json body = question("What is 47+85?");
  const int without = chat(body).json()["usage"]["prompt_tokens"];
  const json plain = choice(body);
  body["tools"] = kTools;
  EXPECT_GT(chat(body).json()["usage"]["prompt_tokens"], without + 20);
  EXPECT_GT(server().post("/tokenize", body).json()["count"], without + 20);
  body["tool_choice"] = "auto";
  body["parallel_tool_calls"] = false;
  EXPECT_EQ(chat(body).status, 200);
  body["tool_choice"] = "none";
  EXPECT_EQ(choice(body), plain);
}

TEST_F(FieldsOf, ToolsThatAreWrongAreRefused) {
  const json body = question("x");
  EXPECT_EQ(param_of_chat(body, "tools", 5), "tools");
  EXPECT_EQ(param_of_chat(body, "tool_choice", "required"), "tool_choice");
  json tooled = body;
  tooled["tools"] = kTools;
  EXPECT_EQ(param_of_chat(tooled, "tool_choice", "sometimes"), "tool_choice");
  EXPECT_EQ(param_of_chat(tooled, "tool_choice",
                          {{"type", "function"}, {"function", {{"name", "none"}}}}),
            "tool_choice");
  EXPECT_EQ(param_of_chat(tooled, "response_format", {{"type", "json_object"}}), "response_format");
  json nameless = body;
  nameless["tools"] = {{{"type", "function"}, {"function", json::object()}}};
  EXPECT_EQ(chat(nameless).status, 400);
}

TEST_F(FieldsOf, FormsThatAreNoneAreRefused) {
  const json body = question("x");
  EXPECT_EQ(choice([&] {
              json text = question("What is 1+2?");
              text["response_format"] = {{"type", "text"}};
              return text;
            }())["finish_reason"],
            "stop");
  for (const json& format : {json(5), json("json_object"), json::array()}) {
    EXPECT_EQ(param_of_chat(body, "response_format", format), "response_format");
  }
  EXPECT_EQ(param_of_chat(body, "response_format", json::object()), "response_format.type");
  EXPECT_EQ(param_of_chat(body, "response_format", {{"type", "xml"}}), "response_format.type");
  EXPECT_EQ(param_of_chat(body, "response_format", {{"type", "json_schema"}}),
            "response_format.json_schema");
}

// A schema whose every answer is short, so that the model comes to its end.
const json kYesOrNo = {{"type", "object"},
                       {"properties", {{"sure", {{"enum", {"yes", "no"}}}}}},
                       {"required", {"sure"}},
                       {"additionalProperties", false}};

TEST_F(FieldsOf, FormsHoldForTheAnswerAndNotForTheThought) {
  json body = question("What is 47+85?");
  const json free = choice(body)["message"];
  body["response_format"] = {{"type", "json_schema"},
                             {"json_schema", {{"name", "a"}, {"schema", kYesOrNo}}}};
  const json bound = choice(body);
  EXPECT_EQ(bound["finish_reason"], "stop");
  EXPECT_EQ(bound["message"]["reasoning_content"], free["reasoning_content"]);
  const json content = json::parse(bound["message"]["content"].get<std::string>());
  EXPECT_EQ(content.size(), 1u);
  EXPECT_TRUE(content["sure"] == "yes" || content["sure"] == "no") << content;
  EXPECT_EQ(join(stream(body)).content, bound["message"]["content"]);
  body["response_format"]["json_schema"]["schema"] = {{"type", "integer"}, {"not", {{"const", 3}}}};
  EXPECT_EQ(param_of("/v1/chat/completions", body), "response_format");
}

TEST_F(FieldsOf, ToolsThatMustBeCalledAreCalled) {
  json body = question("What is 47+85?");
  body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", kYesOrNo}}}},
                   {{"type", "function"}, {"function", {{"name", "g"}, {"parameters", kYesOrNo}}}}};
  body["parallel_tool_calls"] = false;
  for (const json& asked :
       {json("required"), json{{"type", "function"}, {"function", {{"name", "g"}}}}}) {
    body["tool_choice"] = asked;
    const json called = choice(body);
    EXPECT_EQ(called["finish_reason"], "tool_calls") << called;
    ASSERT_EQ(called["message"]["tool_calls"].size(), 1u) << called;
    const json& function = called["message"]["tool_calls"][0]["function"];
    EXPECT_TRUE(function["name"] == "g" || asked == "required") << function;
    EXPECT_TRUE(json::parse(function["arguments"].get<std::string>()).contains("sure"));
    std::string name, arguments;
    for (const json& chunk : stream(body).chunks) {
      for (const json& call : chunk["choices"][0]["delta"].value("tool_calls", json::array())) {
        name += call["function"].value("name", "");
        arguments += call["function"].value("arguments", "");
      }
    }
    EXPECT_EQ(name, function["name"]);
    EXPECT_EQ(arguments, function["arguments"]);
  }
}

}  // namespace
}  // namespace fathom::server
