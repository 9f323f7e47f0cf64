#include "engine/text_output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fathom {
namespace {

// One token per byte, then control tokens; ids 0..255 are the bytes themselves.
constexpr TokenId kEnd = 256;
constexpr TokenId kOpen = 257;
constexpr TokenId kClose = 258;
constexpr auto kThought = ReasoningSplitter::Start::thought;
constexpr auto kFresh = ReasoningSplitter::Start::fresh;

// GPT-2's alphabet: how tokenizer.json spells a byte.
std::string spelling(int byte) {
  static const std::vector<int> code_points = [] {
    std::vector<int> result(256, -1);
    for (int b = 0; b < 256; ++b) {
      if ((b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae)
        result[static_cast<size_t>(b)] = b;
    }
    int next = 256;
    for (int& code_point : result) {
      if (code_point < 0) code_point = next++;
    }
    return result;
  }();
  const int c = code_points[static_cast<size_t>(byte)];
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xc0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3f))};
}

const Tokenizer& bytes_tokenizer() {
  static const Tokenizer tokenizer = [] {
    nlohmann::json vocab;
    for (int b = 0; b < 256; ++b) vocab[spelling(b)] = b;
    const auto added = [](TokenId id, const char* content, bool special) {
      return nlohmann::json{{"id", id},           {"content", content}, {"special", special},
                            {"lstrip", false},    {"rstrip", false},    {"single_word", false},
                            {"normalized", false}};
    };
    const nlohmann::json file = {
        {"version", "1.0"},
        {"added_tokens",
         {added(kEnd, "<end>", true), added(kOpen, "<think>", false),
          added(kClose, "</think>", false)}},
        {"normalizer", nullptr},
        {"pre_tokenizer",
         {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}}},
        {"post_processor", nullptr},
        {"decoder",
         {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}}},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
    return Tokenizer::parse(file.dump(), "bytes");
  }();
  return tokenizer;
}

struct Whole {
  std::string text, reasoning, content, tools;
  bool stopped = false;
  int64_t reasoning_tokens = 0;
};

Whole run(const std::vector<TokenId>& ids, const TextOutput::Options& options) {
  TextOutput output(bytes_tokenizer(), options);
  Whole whole;
  bool content_begun = false;
  const auto add = [&](const TextOutput::Delta& delta) {
    whole.text += delta.text;
    whole.reasoning += delta.reasoning;
    whole.content += delta.content;
    for (const ToolEvent& event : delta.tools) {
      whole.tools +=
          std::to_string(event.index) + "baex"[static_cast<int>(event.kind)] + event.text;
    }
    whole.stopped |= delta.stopped;
    EXPECT_FALSE(content_begun && !delta.reasoning.empty()) << "reasoning after content";
    content_begun |= !delta.content.empty();
  };
  for (const TokenId id : ids) {
    add(output.push(id));
    if (whole.stopped) break;
  }
  add(output.finish());
  whole.reasoning_tokens = output.reasoning_tokens();
  return whole;
}

std::vector<TokenId> ids(std::initializer_list<std::variant<const char*, TokenId>> parts) {
  std::vector<TokenId> result;
  for (const auto& part : parts) {
    if (const auto* id = std::get_if<TokenId>(&part)) {
      result.push_back(*id);
    } else {
      for (const char* c = std::get<const char*>(part); *c != '\0'; ++c) {
        result.push_back(static_cast<uint8_t>(*c));
      }
    }
  }
  return result;
}

TEST(TextOutput, ThoughtAndAnswerApart) {
  const Whole whole = run(ids({"\nabc\n", kClose, "\n\nok"}), {true, kThought, {}});
  EXPECT_EQ(whole.reasoning, "abc");
  EXPECT_EQ(whole.content, "ok");
  EXPECT_EQ(whole.text, "\nabc\n</think>\n\nok");
  EXPECT_EQ(whole.reasoning_tokens, 6);
}

TEST(TextOutput, ATagSpelledOutInsideAThoughtIsText) {
  const Whole whole = run(ids({"a </think> b", kClose, "c"}), {true, kThought, {}});
  EXPECT_EQ(whole.reasoning, "a </think> b");
  EXPECT_EQ(whole.content, "c");
}

TEST(TextOutput, AThoughtThatNeverClosesIsAllReasoning) {
  const Whole whole = run(ids({"first I consider"}), {true, kThought, {}});
  EXPECT_EQ(whole.reasoning, "first I consider");
  EXPECT_EQ(whole.content, "");
  EXPECT_EQ(whole.reasoning_tokens, 16);
}

TEST(TextOutput, TheModelMayOpenTheThoughtItself) {
  const Whole whole = run(ids({kOpen, "\nx\n", kClose, "\ny"}), {true, kFresh, {}});
  EXPECT_EQ(whole.reasoning, "x");
  EXPECT_EQ(whole.content, "y");
  EXPECT_EQ(whole.reasoning_tokens, 5);
}

TEST(TextOutput, StopStringsApplyToTheAnswerOnly) {
  const Whole whole =
      run(ids({"one STOP two", kClose, "three STOP four"}), {true, kThought, {"STOP"}});
  EXPECT_EQ(whole.reasoning, "one STOP two");
  EXPECT_EQ(whole.content, "three ");
  EXPECT_EQ(whole.text, "one STOP two</think>three ");
  EXPECT_TRUE(whole.stopped);
}

TEST(TextOutput, WithoutASplitStopStringsApplyAnywhere) {
  const Whole whole = run(ids({"one STOP two"}), {false, kFresh, {"STOP"}});
  EXPECT_EQ(whole.content, "one ");
  EXPECT_TRUE(whole.stopped);
}

TEST(TextOutput, WhatMightHaveBecomeAStopStringIsShownInTheEnd) {
  const Whole whole = run(ids({"a\n", kClose, "\nb STO"}), {true, kThought, {"STOP"}});
  EXPECT_EQ(whole.content, "b STO");
  EXPECT_EQ(whole.text, "a\n</think>\nb STO");
}

const std::string kCall =
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜>";

TEST(TextOutput, ToolCallsAreNoContent) {
  const std::string answer = "see" + kCall;
  const Whole whole = run(ids({"x", kClose, answer.c_str()}), {true, kThought, {}, true});
  EXPECT_EQ(whole.reasoning, "x");
  EXPECT_EQ(whole.content, "see");
  EXPECT_EQ(whole.tools.substr(0, 4), "0bf0");
  EXPECT_EQ(whole.tools.substr(whole.tools.size() - 2), "0e");
  EXPECT_EQ(whole.text, "x</think>" + answer);
  const Whole unasked = run(ids({"x", kClose, answer.c_str()}), {true, kThought, {}, false});
  EXPECT_EQ(unasked.content, answer);
}

TEST(TextOutput, StopStringsApplyAroundCallsAndToWhatIsHandedBack) {
  // "1}" would stop in an answer; in a call it does not.
  const std::string answer = "a 1" + kCall + "} b 1} c";
  const Whole whole = run(ids({kClose, answer.c_str()}), {true, kThought, {"1}"}, true});
  EXPECT_EQ(whole.content, "a 1} b ");
  EXPECT_TRUE(whole.stopped);
  const std::string broken = kCall.substr(0, kCall.size() - 8);
  const Whole cut = run(ids({kClose, broken.c_str()}), {true, kThought, {"json"}, true});
  EXPECT_EQ(cut.content, broken.substr(0, broken.find("json")));
}

TEST(TextOutput, ACallInAThoughtIsText) {
  const Whole whole = run(ids({kCall.c_str()}), {true, kThought, {}, true});
  EXPECT_EQ(whole.reasoning, kCall);
  EXPECT_EQ(whole.tools, "");
}

TEST(TextOutput, ACharacterCutByTheEndBecomesOneReplacement) {
  const Whole whole = run({'H', 'i', ' ', 0xf0, 0x9f, 0x91}, {false, kFresh, {}});
  EXPECT_EQ(whole.text, "Hi \xef\xbf\xbd");
  EXPECT_EQ(whole.content, whole.text);
}

TEST(TextOutput, SpecialTokensAreNotShown) {
  const Whole whole = run(ids({"a", kEnd, "b"}), {false, kFresh, {}});
  EXPECT_EQ(whole.text, "ab");
}

}  // namespace
}  // namespace fathom
