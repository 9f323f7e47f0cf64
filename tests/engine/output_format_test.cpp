// Answers of a format, sampled from a model that knows nothing of it.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fathom/scheduler.h"
#include "tests/paths.h"

namespace fathom {
namespace {

using nlohmann::json;

std::string demo() { return test_paths::models() + "/demo"; }

Model load() {
  LoadOptions options;
  options.folder = demo();
  options.threads = 1;
  return Model::load(options);
}

const char* const kPerson = R"({"type":"object","properties":{
  "name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":120},
  "tags":{"type":"array","items":{"enum":["a","b","c"]},"maxItems":3}},
  "required":["name","age"],"additionalProperties":false})";

const char* const kTools = R"([{"type":"function","function":{"name":"weather","parameters":{
    "type":"object","properties":{"city":{"type":"string","maxLength":8},
    "unit":{"$ref":"#/$defs/unit"}},"required":["city","unit"],
    "$defs":{"unit":{"enum":["C","F"]}}}}},
  {"type":"function","function":{"name":"now"}}])";

GenerateRequest request(const Model& model, const OutputFormat& format, uint64_t seed) {
  GenerateRequest r;
  r.prompt = model.render(R"([{"role":"user","content":"What is 47+85?"}])");
  r.sampling.temperature = 1;
  r.sampling.top_p = 1;
  r.sampling.seed = seed;
  r.format = format;
  r.max_tokens = 300;
  return r;
}

OutputFormat form(OutputFormat::Kind kind, const char* schema) {
  OutputFormat format;
  format.kind = kind;
  format.schema = schema;
  return format;
}

OutputFormat person() { return form(OutputFormat::Kind::json_schema, kPerson); }

void expect_person(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  ASSERT_TRUE(value.is_object()) << text;
  EXPECT_TRUE(value.at("name").is_string());
  EXPECT_GE(value.at("age").get<int>(), 0);
  EXPECT_LE(value.at("age").get<int>(), 120);
  for (const auto& [key, member] : value.items()) {
    EXPECT_TRUE(key == "name" || key == "age" || key == "tags") << key;
  }
}

TEST(OutputFormat, EveryAnswerFitsTheSchema) {
  Model model = load();
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerateRequest r = request(model, person(), seed);
    r.reasoning_budget = static_cast<int64_t>(seed);
    const GenerateResult result = model.generate(r);
    ASSERT_EQ(result.finish_reason, FinishReason::stop) << result.text;
    expect_person(result.content);
  }
}

TEST(OutputFormat, TheThoughtIsFreeAndTheAnswerComesAfterIt) {
  Model model = load();
  GenerateRequest r = request(model, {}, 3);
  const GenerateResult free = model.generate(r);
  r.format = person();
  const GenerateResult result = model.generate(r);
  EXPECT_EQ(result.reasoning, free.reasoning);
  ASSERT_EQ(result.finish_reason, FinishReason::stop);
  expect_person(result.content);
}

TEST(OutputFormat, ALimitMayCutAndNothingElse) {
  Model model = load();
  GenerateRequest r = request(model, person(), 1);
  r.reasoning_budget = 0;
  r.max_tokens = 4;
  const GenerateResult result = model.generate(r);
  EXPECT_EQ(result.finish_reason, FinishReason::length);
  EXPECT_TRUE(result.content.starts_with('{')) << result.content;
}

TEST(OutputFormat, ToolCallsHaveArgumentsThatFit) {
  Model model = load();
  const OutputFormat format = form(OutputFormat::Kind::tool_calls, kTools);
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerateRequest r = request(model, format, seed);
    r.reasoning_budget = 2;
    r.parse_tool_calls = true;
    r.format.tool = seed % 3 == 0 ? "weather" : "";
    r.format.parallel_calls = seed % 2 == 0;
    r.max_tokens = 120;
    const GenerateResult result = model.generate(r);
    if (result.finish_reason == FinishReason::length) continue;  // "now" takes any object
    ASSERT_EQ(result.finish_reason, FinishReason::stop) << result.text;
    EXPECT_EQ(result.content, "");
    ASSERT_FALSE(result.tool_calls.empty()) << result.text;
    if (seed % 2 == 1) {
      EXPECT_EQ(result.tool_calls.size(), 1u);
    }
    for (const ToolCall& call : result.tool_calls) {
      const json arguments = json::parse(call.arguments);
      if (seed % 3 == 0) {
        EXPECT_EQ(call.name, "weather");
      }
      if (call.name != "weather") continue;
      EXPECT_TRUE(arguments.at("unit") == "C" || arguments.at("unit") == "F");
      EXPECT_TRUE(arguments.at("city").is_string());
    }
  }
}

TEST(OutputFormat, SeveralCallsOnlyWhereTheyAreAllowed) {
  Model model = load();
  const std::string call =
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>";
  GenerateRequest r = request(model, form(OutputFormat::Kind::tool_calls, kTools), 1);
  r.parse_tool_calls = true;
  r.resume = model.tokenize("</think>\n\n<｜tool▁calls▁begin｜>" + call + "\n" + call +
                            "<｜tool▁calls▁end｜>");
  const GenerateResult result = model.generate(r);
  EXPECT_EQ(result.finish_reason, FinishReason::stop);
  EXPECT_EQ(result.tool_calls.size(), 2u);
  r.format.parallel_calls = false;
  EXPECT_THROW(model.generate(r), Error);
}

TEST(OutputFormat, DraftsAndCompanyChangeNoToken) {
  LoadOptions options;
  options.folder = demo();
  options.threads = 1;
  options.speculation = Speculation::on;
  Model drafting = Model::load(options);
  Model model = load();
  std::vector<GenerateRequest> requests;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(request(model, seed % 2 == 0 ? person() : OutputFormat{}, seed));
    requests.back().max_tokens = 60;
  }
  const auto together = drafting.generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].ids, model.generate(requests[i]).ids) << i;
  }
}

TEST(OutputFormat, AnAnswerIsResumedWithinItsFormat) {
  Model model = load();
  GenerateRequest r = request(model, person(), 5);
  r.reasoning_budget = 1;
  const auto whole = model.generate(r).ids;
  r.resume.assign(whole.begin(), whole.begin() + 6);
  EXPECT_EQ(model.generate(r).ids, whole);
  r.resume = model.tokenize("</think>words");
  EXPECT_THROW(model.generate(r), Error);
}

std::string refusal(Model& model, const std::function<void(GenerateRequest&)>& change) {
  GenerateRequest r = request(model, person(), 1);
  change(r);
  try {
    model.generate(r);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(OutputFormat, WhatCannotBeEnforcedIsRefused) {
  Model model = load();
  EXPECT_EQ(refusal(model, [](auto& r) { r.format.schema = R"({"not":{}})"; }),
            "#: 'not' cannot be enforced");
  EXPECT_EQ(refusal(model, [](auto& r) { r.split_reasoning = false; }),
            "response_format: thought and answer are not told apart here");
  EXPECT_EQ(refusal(model, [](auto& r) { r.ignore_eos = true; }),
            "response_format: an answer of a format has an end");
  EXPECT_EQ(refusal(model,
                    [](auto& r) {
                      r.format = form(OutputFormat::Kind::tool_calls, kTools);
                      r.format.tool = "other";
                    }),
            "tool_choice: there is no tool 'other'");
  EXPECT_NE(refusal(model, [](auto& r) { r.format.schema = "{"; }), "accepted");
}

}  // namespace
}  // namespace fathom
