#include "text/reasoning.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/file.h"
#include "tests/paths.h"

namespace fathom {
namespace {

using Tags = ReasoningSplitter::Tags;
constexpr TokenId kOpenId = 100;
constexpr TokenId kCloseId = 101;
constexpr TokenId kWord = 1;

ReasoningSplitter::Start start(bool inside) {
  return inside ? ReasoningSplitter::Start::thought : ReasoningSplitter::Start::fresh;
}

const nlohmann::json& cases() {
  static const nlohmann::json json =
      nlohmann::json::parse(read_text(test_paths::golden() + "/reasoning-cases.json"));
  return json;
}

struct Split {
  std::string reasoning;
  std::string content;
  bool operator==(const Split&) const = default;
};
void PrintTo(const Split& split, std::ostream* out) {
  *out << "reasoning " << nlohmann::json(split.reasoning) << " content "
       << nlohmann::json(split.content);
}

// Collects deltas and checks what holds for each of them.
class Collector {
 public:
  void add(const ReasoningDelta& delta) {
    if (split_.reasoning.empty() && !delta.reasoning.empty()) {
      EXPECT_NE(delta.reasoning.find_first_not_of(" \n\t"), std::string::npos)
          << "reasoning began with a delta of blanks";
    }
    split_.reasoning += delta.reasoning;
    split_.content += delta.content;
  }
  const Split& split() const { return split_; }

 private:
  Split split_;
};

Split split_pieces(const std::vector<std::string>& pieces, bool inside) {
  ReasoningSplitter splitter(Tags{}, start(inside));
  Collector collector;
  for (const std::string& piece : pieces) collector.add(splitter.push_text(piece));
  collector.add(splitter.flush());
  return collector.split();
}

std::vector<std::string> slices(const std::string& text, size_t size) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size(); at += size) pieces.push_back(text.substr(at, size));
  return pieces;
}

// A script of tokens: texts, with the two tags standing for their ids.
Split split_tokens(const std::vector<std::string>& tokens, bool inside) {
  ReasoningSplitter splitter(Tags{kOpenId, kCloseId}, start(inside));
  Collector collector;
  for (const std::string& token : tokens) {
    if (token == "<think>") {
      collector.add(splitter.push(kOpenId, ""));
    } else if (token == "</think>") {
      collector.add(splitter.push(kCloseId, ""));
    } else {
      collector.add(splitter.push(kWord, token));
    }
  }
  collector.add(splitter.flush());
  return collector.split();
}

TEST(Reasoning, PublicCasesForEveryChunkSize) {
  const auto& chunked = cases()["chunked"];
  for (size_t size : chunked["chunk_sizes"]) {
    EXPECT_EQ(split_pieces(slices(chunked["text"], size), false),
              (Split{chunked["reasoning"], chunked["content"]}))
        << size;
  }
  for (const auto& item : cases()["splits"]) {
    for (size_t size = 1; size <= 40; ++size) {
      EXPECT_EQ(split_pieces(slices(item["text"], size), item["inside"]),
                (Split{item["reasoning"], item["content"]}))
          << item << " in pieces of " << size;
    }
  }
}

TEST(Reasoning, TagsByIdWhereTheVocabularyHasThem) {
  EXPECT_EQ(split_tokens({"<think>", "\n", "a", "\n", "</think>", "\n\n", "b"}, false),
            (Split{"a", "b"}));
  EXPECT_EQ(split_tokens({"\n\n", "</think>", "\n\n", "Hello"}, true), (Split{"", "Hello"}));
  // Spelled out in pieces, a tag is text.
  EXPECT_EQ(split_tokens({"say ", "</", "think", ">", " or", "</think>", "b"}, true),
            (Split{"say </think> or", "b"}));
  EXPECT_EQ(split_tokens({"a", "</think>", "x ", "<think>", " y", "</think>", "z"}, true),
            (Split{"a", "x <think> y</think>z"}));
  EXPECT_EQ(split_tokens({"pre", "<think>", "a", "</think>", "b"}, false), (Split{"a", "preb"}));
}

TEST(Reasoning, TextPendingBeforeATagsIdComesFirst) {
  ReasoningSplitter splitter(Tags{kOpenId, kCloseId}, start(true));
  Collector collector;
  collector.add(splitter.push(kWord, "ab"));
  collector.add(splitter.push(kCloseId, "\xEF\xBF\xBD \n"));
  collector.add(splitter.push(kWord, "c"));
  EXPECT_EQ(collector.split(), (Split{"ab\xEF\xBF\xBD", "c"}));
}

TEST(Reasoning, OneTagByIdTheOtherByText) {
  ReasoningSplitter splitter(Tags{std::nullopt, kCloseId}, start(false));
  Collector collector;
  collector.add(splitter.push(kWord, "<thi"));
  collector.add(splitter.push(kWord, "nk>a</think>"));
  collector.add(splitter.push(kCloseId, ""));
  collector.add(splitter.push(kWord, "b"));
  EXPECT_EQ(collector.split(), (Split{"a</think>", "b"}));
}

TEST(Reasoning, AModelMayOpenWhatThePromptHasOpened) {
  EXPECT_EQ(split_pieces({"<think>\na</think>b"}, true), (Split{"a", "b"}));
  EXPECT_EQ(split_tokens({"\n", "<think>", "\n", "a", "</think>", "b"}, true), (Split{"a", "b"}));
  // Later it is a word of the thought.
  EXPECT_EQ(split_pieces({"a<think>b</think>c"}, true), (Split{"a<think>b", "c"}));
  EXPECT_EQ(split_tokens({"a", "<think>", "b", "</think>", "c"}, true), (Split{"a<think>b", "c"}));
}

TEST(Reasoning, ACloseWithoutAnOpenBeforeAnyWordEndsAnEmptyThought) {
  EXPECT_EQ(split_pieces({" </think>\n\nhi"}, false), (Split{"", "hi"}));
  EXPECT_EQ(split_tokens({"</think>", "\n\n", "hi"}, false), (Split{"", "hi"}));
  EXPECT_EQ(split_pieces({"hi</think>there"}, false), (Split{"", "hi</think>there"}));
  EXPECT_EQ(split_tokens({"hi", "</think>", "there"}, false), (Split{"", "hi</think>there"}));
}

TEST(Reasoning, AnAnswerWithoutThoughtIsUntouched) {
  EXPECT_EQ(split_pieces({"  two", " <three> < 4\n"}, false), (Split{"", "  two <three> < 4\n"}));
  EXPECT_EQ(split_pieces({"  "}, false), (Split{"", "  "}));
  EXPECT_EQ(split_pieces({" <thin"}, false), (Split{"", " <thin"}));
}

TEST(Reasoning, AThoughtCutOffKeepsWhatWasHeld) {
  EXPECT_EQ(split_pieces({"a </thin"}, true), (Split{"a </thin", ""}));
  EXPECT_EQ(split_pieces({" \n ", "\n"}, true), (Split{"", ""}));
}

TEST(Reasoning, BlanksInsideAPartStay) {
  EXPECT_EQ(split_pieces({"a \n\n b\n</think>\n c\n\nd\n"}, true), (Split{"a \n\n b", "c\n\nd\n"}));
}

TEST(Reasoning, SaysWhetherAThoughtIsOpen) {
  ReasoningSplitter splitter(Tags{}, start(false));
  EXPECT_FALSE(splitter.inside_thought());
  splitter.push_text("<think>");
  EXPECT_TRUE(splitter.inside_thought());
  splitter.push_text("a</think>");
  EXPECT_FALSE(splitter.inside_thought());
}

TEST(Reasoning, AnyCutGivesTheWholeTextsResult) {
  std::mt19937 random(5);
  const std::vector<std::string> parts{"<think>", "</think>", "<", "/", "thi", "nk>",
                                       " ",       "\n",       "a", "b", "</",  "<think"};
  for (int round = 0; round < 30000; ++round) {
    std::string text;
    for (size_t i = random() % 10; i > 0; --i) text += parts[random() % parts.size()];
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 5;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    const bool inside = random() % 2 == 0;
    ASSERT_EQ(split_pieces(pieces, inside), split_pieces({text}, inside))
        << nlohmann::json(text) << (inside ? " inside" : "");
  }
}

TEST(Reasoning, PromptsThatOpenAThought) {
  EXPECT_TRUE(prompt_opens_thought("x<think>"));
  EXPECT_TRUE(prompt_opens_thought("x<think>\n"));
  EXPECT_TRUE(prompt_opens_thought("<think> \n\n"));
  EXPECT_FALSE(prompt_opens_thought("x<think>\n\n</think>\n\n"));
  EXPECT_FALSE(prompt_opens_thought("x<think>\nI"));
  EXPECT_FALSE(prompt_opens_thought("hink>"));
  EXPECT_FALSE(prompt_opens_thought(""));
}

}  // namespace
}  // namespace fathom
