// Tool calls found in a stream, whatever it is cut into, and handed back where they are none.
#include "text/tool_calls.h"

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/text/small_vocabulary.h"

namespace fathom {
namespace {

const Tokenizer& with_markers() {
  static const Tokenizer instance = Tokenizer::load(test_paths::models() + "/demo");
  return instance;
}

// "[", "(", "|", ")", "]" stand for the markers in what follows.
constexpr std::string_view kShort = "[(|)]";

std::string spelled(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const size_t marker = kShort.find(c);
    if (marker == kShort.npos) {
      out += c;
    } else {
      out += tool_marker_text(static_cast<ToolMarker>(marker));
    }
  }
  return out;
}

// Pieces in one line: content as it is, {name:arguments} for a call, {name:arguments! for a broken
// one.
std::string line(const std::vector<ToolPiece>& pieces) {
  std::string out;
  for (const ToolPiece& piece : pieces) {
    switch (piece.kind) {
      case ToolPiece::Kind::content:
      case ToolPiece::Kind::arguments:
        out += piece.text;
        break;
      case ToolPiece::Kind::begins:
        out += "{" + piece.text + ":";
        break;
      case ToolPiece::Kind::ends:
        out += "}";
        break;
      case ToolPiece::Kind::broken:
        out += "!";
        break;
    }
  }
  return out;
}

void append(std::vector<ToolPiece>& all, std::vector<ToolPiece> more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Markers as tokens, text in pieces of `size`.
std::string by_ids(std::string_view text, size_t size) {
  ToolCallParser parser(with_markers());
  std::vector<ToolPiece> all;
  std::string word;
  const auto flush = [&] {
    for (size_t at = 0; at < word.size(); at += size)
      append(all, parser.push(word.substr(at, size)));
    word.clear();
  };
  for (const char c : text) {
    const size_t marker = kShort.find(c);
    if (marker == kShort.npos) {
      word += c;
      continue;
    }
    flush();
    const auto id = with_markers().id_of(tool_marker_text(static_cast<ToolMarker>(marker)));
    append(all, parser.push(*parser.marker(*id)));
  }
  flush();
  append(all, parser.finish());
  return line(all);
}

// Markers spelled out, for a vocabulary without them.
std::string by_text(std::string_view text, size_t size) {
  static const Tokenizer tokenizer = Tokenizer::parse(small_vocabulary().dump(), "small");
  ToolCallParser parser(tokenizer);
  EXPECT_FALSE(parser.marker(3));
  std::vector<ToolPiece> all;
  const std::string long_form = spelled(text);
  for (size_t at = 0; at < long_form.size(); at += size) {
    append(all, parser.push(long_form.substr(at, size)));
  }
  append(all, parser.finish());
  return line(all);
}

void expect(std::string_view text, std::string_view expected) {
  for (const size_t size : {1, 2, 3, 7, 1000}) {
    EXPECT_EQ(by_ids(text, size), expected) << "pieces of " << size;
    EXPECT_EQ(by_text(text, size), expected) << "spelled, pieces of " << size;
  }
}

std::string call(const std::string& name, const std::string& arguments) {
  return "(function|" + name + "\n```json\n" + arguments + "\n```)";
}

TEST(ToolCalls, OneCallAndSeveral) {
  expect("[" + call("f", R"({"a": 1})") + "]", R"({f:{"a": 1}})");
  expect("Let me see.[" + call("f", R"({"a": 1})") + "\n" + call("g.h", "{}") + "]",
         R"(Let me see.{f:{"a": 1}}{g.h:{}})");
  expect("no call at all `` ```", "no call at all `` ```");
}

TEST(ToolCalls, ArgumentsMayHoldFencesBlanksAndBraces) {
  const std::string arguments = R"({"code": "```json\n}```", "b": { } }  )";
  expect("[" + call("f", arguments) + "]", R"({f:{"code": "```json\n}```", "b": { } }})");
}

TEST(ToolCalls, WhatModelsLeaveOutIsForgiven) {
  expect(call("f", "{}"), "{f:{}}");                      // no outer marker
  expect("[(function|f\n{\"a\":2})]", R"({f:{"a":2}})");  // no fence
  expect("[(function|f\n```json\n{}\n```", "{f:{}}");     // no end
  expect("[" + call("f", "{}") + "\n" + call("g", "{}"), "{f:{}}{g:{}}");
}

TEST(ToolCalls, WhatIsNoCallIsHandedBackWhole) {
  const auto handed_back = [](const std::string& text, const std::string& told = "") {
    expect(text, told + spelled(text));
  };
  handed_back("[] then text");
  handed_back("[some text");
  handed_back("[(tool|f\n```json\n{}\n```)]");
  handed_back("[(function)]");
  handed_back("[(function|f)]");
  handed_back("[(function|f\nplain words)]", "{f:!");
  handed_back("[" + call("f", R"({"a": )") + "]", R"({f:{"a":!)");
  handed_back("[" + call("f", R"({"a": 1} trailing)") + "]", R"({f:{"a": 1} trailing!)");
  handed_back("[" + call("f", R"("word")") + "]", "{f:!");
  handed_back("[(function|f\n```json\n{\"a\": 1", R"({f:{"a": 1!)");  // cut
  handed_back("|)]");
  handed_back("[(function|" + std::string(200, 'n'));
}

TEST(ToolCalls, AGoodCallAfterABadOneCounts) {
  const std::string bad = "[(function|f\n```json\n{\"a\" 1}\n```)";
  expect(bad + "\n" + call("g", "{}") + "]", "{f:{\"a\" 1}!" + spelled(bad) + "\n{g:{}}");
  expect("[(function|f\n" + call("g", "{}"), "{f:!" + spelled("[(function|f\n") + "{g:{}}");
}

TEST(ToolCalls, TextAfterTheCallsIsContent) {
  expect("[" + call("f", "{}") + "] and more", "{f:{}} and more");
  expect("[" + call("f", "{}") + " and more]", "{f:{}} and more" + spelled("]"));
}

TEST(ToolCalls, ASpelledMarkerIsTextWhereItIsAToken) {
  ToolCallParser parser(with_markers());
  const std::string text = spelled("[" + call("f", "{}") + "]");
  std::vector<ToolPiece> all = parser.push(text);
  append(all, parser.finish());
  EXPECT_EQ(line(all), text);
}

}  // namespace
}  // namespace fathom
