#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tests/paths.h"
#include "text/reasoning.h"

namespace fathom {
namespace {

using nlohmann::ordered_json;

const std::string kData = test_paths::golden();
const std::string kDemo = kData + "/../../models/random";

const ordered_json& cases() {
  static const ordered_json json = ordered_json::parse(read_text(kData + "/chat-cases.json"));
  return json;
}

const Tokenizer& demo() {
  static const Tokenizer tokenizer = Tokenizer::load(kDemo);
  return tokenizer;
}

const ChatTemplate& demo_template() {
  static const ChatTemplate instance = ChatTemplate::parse(demo().chat_template(), "demo");
  return instance;
}

RenderedPrompt render(const ordered_json& messages, const TemplateOptions& options = {}) {
  return demo_template().render(normalise_messages(messages), demo(), options);
}

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.what();
  }
  return "accepted";
}

ordered_json message(const char* role, const ordered_json& content) {
  return {{"role", role}, {"content", content}};
}

ordered_json user(const char* content) { return ordered_json::array({message("user", content)}); }

TEST(ChatTemplate, PublicCases) {
  for (const ordered_json& item : cases()["prompts"]) {
    const RenderedPrompt prompt = render(item["messages"]);
    EXPECT_EQ(prompt.text(), item["text"].get<std::string>());
    EXPECT_EQ(prompt_opens_thought(prompt.text()), item["opens_thought"].get<bool>());
    if (item.contains("raw_text")) {
      EXPECT_EQ(demo_template().render(item["messages"], demo()).text(),
                item["raw_text"].get<std::string>());
    }
  }
  for (const ordered_json& messages : cases()["calls_without_content"]) {
    EXPECT_EQ(render(messages).text(), cases()["calls_without_content_text"].get<std::string>());
  }
}

TEST(ChatTemplate, WithoutGenerationPrompt) {
  TemplateOptions options;
  options.add_generation_prompt = false;
  EXPECT_EQ(render(user("hi"), options).text(), "<｜begin▁of▁sentence｜><｜User｜>hi");
}

TEST(ChatTemplate, AnOlderGenerationPromptOpensNoThought) {
  std::string source = demo().chat_template();
  const std::string newer = "<think>{{ '\\n' }}";
  const size_t at = source.find(newer);
  ASSERT_NE(at, std::string::npos);
  source.erase(at, newer.size());
  const auto& item = cases()["older_generation_prompt"];
  const std::string text =
      ChatTemplate::parse(source, "older").render(item["messages"], demo()).text();
  EXPECT_EQ(text, item["text"].get<std::string>());
  EXPECT_FALSE(prompt_opens_thought(text));
}

TEST(ChatTemplate, ControlTokensInMessagesStayText) {
  const ordered_json messages{message("system", "<｜User｜>"),
                              message("user", "a<｜end▁of▁sentence｜><think>b</think>")};
  const RenderedPrompt prompt = render(messages);
  const std::vector<TokenId> ids = encode_prompt(prompt, demo());
  const std::string text = prompt.text();
  EXPECT_EQ(demo().decode(ids), text);
  int control = 0;
  for (TokenId id : ids) control += demo().added_token(id) != nullptr ? 1 : 0;
  EXPECT_EQ(control, 4);  // begin, user, assistant, think: those of the template
  EXPECT_GT(demo().encode(text, ControlTokens::as_text).size(), ids.size());
  EXPECT_LT(demo().encode(text, ControlTokens::parse).size(), ids.size());
}

TEST(ChatTemplate, AControlTokenHalfTheTemplatesIsText) {
  const auto half = ChatTemplate::parse("<thi{{ messages[0].content }}", "half");
  const RenderedPrompt prompt = half.render(user("nk>"), demo());
  EXPECT_EQ(prompt.text(), "<think>");
  EXPECT_EQ(encode_prompt(prompt, demo()).size(), 7u);
}

TEST(ChatTemplate, NamesTemplateAndLine) {
  EXPECT_EQ(
      error_of([] { ChatTemplate::parse("a\n{% if %}", "x.jinja"); }).rfind("x.jinja, line 2:", 0),
      0u);
  const auto bad = ChatTemplate::parse("\n{{ messages[0].nope.x }}", "x.jinja");
  EXPECT_EQ(error_of([&] { bad.render(user("q"), demo()); }),
            "x.jinja, line 2: 'dict object' has no attribute 'nope'");
  const auto raising = ChatTemplate::parse("{{ raise_exception('roles!') }}", "x.jinja");
  EXPECT_EQ(error_of([&] { raising.render(user("q"), demo()); }), "x.jinja, line 1: roles!");
}

TEST(ChatTemplate, VariablesReachTheTemplate) {
  const ordered_json variables{{"enable_thinking", false},
                               {"tools", {{{"function", {{"name", "<think>"}}}}}}};
  TemplateOptions options;
  options.variables = &variables;
  const auto chat = ChatTemplate::parse(
      "{{ enable_thinking }}{% if tools is not none %}{{ tools[0].function.name }}{% endif %}"
      "{{ documents is none }}",
      "t");
  const RenderedPrompt prompt = chat.render(user("q"), demo(), options);
  EXPECT_EQ(prompt.text(), "False<think>True");
  for (const PromptPiece& piece : prompt.pieces) EXPECT_FALSE(piece.trusted);
  EXPECT_EQ(chat.render(user("q"), demo()).text(),
            "True");  // undefined prints as nothing, tools are none
}

TEST(ChatTemplate, ArgumentsComeInTheFormThatTheTemplateReads) {
  const ordered_json messages = normalise_messages(
      {message("user", "q"),
       {{"role", "assistant"},
        {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", R"({"a": "b"})"}}}}}}}});
  const auto shown = [&](const char* expression) {
    const auto chat = ChatTemplate::parse(
        fmt::format("{{% for m in messages if m.tool_calls %}}{{{{ {} }}}}{{% endfor %}}",
                    expression),
        "t");
    return chat.render(messages, demo()).text();
  };
  EXPECT_EQ(shown("m.tool_calls[0].function.arguments"), R"({"a": "b"})");
  EXPECT_EQ(shown("m.tool_calls[0].function.arguments|tojson"), R"({"a": "b"})");
  EXPECT_EQ(shown("m.tool_calls[0].function.arguments.items()|first|join('=')"), "a=b");
}

TEST(NormaliseMessages, RefusalsNameTheField) {
  for (const ordered_json& item : cases()["refused"]) {
    const std::string error = error_of([&] { normalise_messages(item["messages"]); });
    EXPECT_EQ(error.rfind(item["field"].get<std::string>() + ":", 0), 0u) << error;
  }
  const auto begins = [](const ordered_json& messages, const std::string& field) {
    const std::string error = error_of([&] { normalise_messages(messages); });
    EXPECT_EQ(error.rfind(field + ":", 0), 0u) << error;
  };
  const auto list = [](const ordered_json& one) { return ordered_json::array({one}); };
  begins(ordered_json::object(), "messages");
  begins(ordered_json::array(), "messages");
  begins(list("hi"), "messages[0]");
  begins(list({{"content", "a"}}), "messages[0].role");
  begins(list({{"role", 1}, {"content", "a"}}), "messages[0].role");
  begins(list({{"role", ""}, {"content", "a"}}), "messages[0].role");
  begins(list({{"role", "user"}}), "messages[0].content");
  begins(list(message("user", 5)), "messages[0].content");
  begins(list(message("tool", nullptr)), "messages[0].content");
  begins(list(message("user", list("a"))), "messages[0].content[0]");
  begins(list(message("user", list({{"text", "a"}}))), "messages[0].content[0].type");
  begins(list(message("user", list({{"type", "text"}}))), "messages[0].content[0].text");
  begins(list(message("user", list({{"type", "text"}, {"text", 1}}))),
         "messages[0].content[0].text");
  const auto call = [&](const ordered_json& calls) {
    return list({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}});
  };
  begins(call("f"), "messages[0].tool_calls");
  begins(call(list(1)), "messages[0].tool_calls[0]");
  begins(call(list(ordered_json::object())), "messages[0].tool_calls[0].function");
  begins(call(list({{"function", 3}})), "messages[0].tool_calls[0].function");
  begins(call(list({{"function", ordered_json::object()}})),
         "messages[0].tool_calls[0].function.name");
  begins(call(list({{"function", {{"name", "f"}, {"arguments", 1}}}})),
         "messages[0].tool_calls[0].function.arguments");
  begins(call(ordered_json::array()), "messages[0].content");
}

TEST(NormaliseMessages, OneForm) {
  const ordered_json given = ordered_json::parse(R"([
    {"role": "developer", "content": "d"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "x", "reasoning_content": "r", "reasoning": "r",
     "tool_calls": null},
    {"role": "assistant", "content": "  <think>\nhalf"},
    {"role": "assistant", "content": "<think>\nwhole</think>yes"},
    {"role": "user", "content": "<think>mine"},
    {"role": "assistant", "content": null, "refusal": "no"},
    {"role": "assistant", "tool_calls": [{"function": {"name": "f",
      "arguments": {"b": [1, 2.5], "a": "\u00e9"}}}, {"function": {"name": "g"}}]}])");
  const ordered_json expected = ordered_json::parse(R"([
    {"role": "system", "content": "d"},
    {"role": "user", "content": "ab"},
    {"role": "assistant", "content": "x"},
    {"role": "assistant", "content": ""},
    {"role": "assistant", "content": "<think>\nwhole</think>yes"},
    {"role": "user", "content": "<think>mine"},
    {"role": "assistant", "content": "no", "refusal": "no"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"type": "function", "function": {"name": "f",
       "arguments": "{\"b\": [1, 2.5], \"a\": \"\u00e9\"}"}},
      {"type": "function", "function": {"name": "g", "arguments": "{}"}}]}])");
  const ordered_json result = normalise_messages(given);
  EXPECT_EQ(nlohmann::json(result), nlohmann::json(expected)) << result.dump(1);
}

// The tests below want vocabularies that are fetched, not kept.
std::string vocabulary(const std::string& name) {
  const std::string path = kData + "/../../build/vocab/" + name + "/tokenizer.json";
  return std::filesystem::exists(path) ? path : "";
}

// tokenizer.json with some of its added tokens renamed and made ordinary.
Tokenizer renamed(const std::string& path, const std::vector<std::pair<int, std::string>>& names) {
  // Not ordered_json: its objects are searched from end to end for every key.
  nlohmann::json json = nlohmann::json::parse(read_text(path));
  for (nlohmann::json& token : json["added_tokens"]) {
    for (const auto& [id, name] : names) {
      if (token["id"] != id) continue;
      token["content"] = name;
      token["special"] = false;
      token["normalized"] = false;
    }
  }
  return Tokenizer::parse(json.dump(), path);
}

TEST(ChatTemplate, IdsInTheRealVocabulary) {
  const std::string path = vocabulary("deepseek_v3");
  if (path.empty()) GTEST_SKIP() << "build/vocab/deepseek_v3 has not been fetched";
  const Tokenizer tokenizer = renamed(path, {{128798, "<think>"}, {128799, "</think>"}});
  for (const ordered_json& item : cases()["prompts"]) {
    if (!item.contains("ids")) continue;
    EXPECT_EQ(encode_prompt(render(item["messages"]), tokenizer),
              item["ids"].get<std::vector<TokenId>>())
        << item["text"];
  }
  // A prompt whose messages quote no control token has the ids of its whole text.
  const RenderedPrompt prompt =
      render({message("system", "Be brief.\n"), message("user", "\nWhat is 3 + 4?")});
  EXPECT_EQ(encode_prompt(prompt, tokenizer),
            tokenizer.encode(prompt.text(), ControlTokens::parse));
}

TEST(ChatTemplate, ReasoningScriptsInTheRealVocabulary) {
  const std::string path = vocabulary("deepseek_v3");
  if (path.empty()) GTEST_SKIP() << "build/vocab/deepseek_v3 has not been fetched";
  const Tokenizer tokenizer = renamed(path, {{128798, "<think>"}, {128799, "</think>"}});
  const auto scripts =
      ordered_json::parse(read_text(kData + "/reasoning-cases.json"))["scripts_r1"];
  for (const ordered_json& item : scripts) {
    using Start = ReasoningSplitter::Start;
    ReasoningSplitter splitter(ReasoningSplitter::tags_of(tokenizer),
                               item["inside"].get<bool>() ? Start::thought : Start::fresh);
    ReasoningDelta all;
    int reasoning_tokens = 0;
    int content_tokens = 0;
    for (TokenId id : item["ids"]) {
      const bool is_tag = id == 128798 || id == 128799;
      const bool inside = splitter.inside_thought();
      const ReasoningDelta delta =
          splitter.push(id, is_tag ? "" : std::string(tokenizer.bytes(id)));
      all.append(delta);
      reasoning_tokens += inside && !is_tag ? 1 : 0;
      content_tokens += delta.content.empty() ? 0 : 1;
    }
    all.append(splitter.flush());
    if (item.contains("reasoning_tokens")) {
      EXPECT_EQ(reasoning_tokens, item["reasoning_tokens"].get<int>());
      EXPECT_EQ(content_tokens, item["content_tokens"].get<int>());
    } else {
      EXPECT_EQ(all.reasoning, item["reasoning"].get<std::string>());
      EXPECT_EQ(all.content, item["content"].get<std::string>());
    }
  }
}

TEST(ChatTemplate, IdsInADistillsVocabulary) {
  const std::string path = vocabulary("qwen3");
  if (path.empty()) GTEST_SKIP() << "build/vocab/qwen3 has not been fetched";
  const Tokenizer tokenizer = renamed(path, {{151643, "<｜end▁of▁sentence｜>"},
                                             {151644, "<｜User｜>"},
                                             {151645, "<｜Assistant｜>"},
                                             {151646, "<｜begin▁of▁sentence｜>"},
                                             {151648, "<think>"},
                                             {151649, "</think>"},
                                             {151667, "<｜unused▁a｜>"},
                                             {151668, "<｜unused▁b｜>"}});
  for (const ordered_json& item : cases()["distill_qwen"]) {
    EXPECT_EQ(encode_prompt(render(item["messages"]), tokenizer),
              item["ids"].get<std::vector<TokenId>>());
  }
}

}  // namespace
}  // namespace fathom
