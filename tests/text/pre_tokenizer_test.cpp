#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "text/normalizer.h"

namespace fathom {
namespace {

using Strings = std::vector<std::string>;

class Collector : public PieceSink {
 public:
  void piece(std::string_view piece, bool) override { pieces.emplace_back(piece); }
  Strings pieces;
};

Strings split(const PreTokenizer& pre_tokenizer, const std::string& text) {
  Pattern::Scratch scratch(text.size());
  Collector collector;
  pre_tokenizer.run(text, scratch, collector);
  return collector.pieces;
}

PreTokenizer splitter(const std::string& pattern, SplitBehavior behavior, bool invert = false) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.add({SplitStep{{Pattern(pattern, "test"), ""}, behavior, invert}});
  return pre_tokenizer;
}

// All matches of a pattern.
Strings matches(const std::string& pattern, const std::string& text) {
  return split(splitter(pattern, SplitBehavior::removed, true), text);
}

std::string compile_error(const std::string& pattern) {
  try {
    Pattern(pattern, "file: field");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    return error.what();
  }
}

TEST(PreTokenizer, SplitsByEveryBehavior) {
  const std::string text = "the-final--countdown";
  using enum SplitBehavior;
  EXPECT_EQ(split(splitter("-", removed), text), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split(splitter("-", isolated), text),
            (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(splitter("-", merged_with_previous), text),
            (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(splitter("-", merged_with_next), text),
            (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(splitter("-", contiguous), text),
            (Strings{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split(splitter("-", merged_with_previous), "-a-"), (Strings{"-", "a-"}));
  EXPECT_EQ(split(splitter("-", merged_with_next), "-a-"), (Strings{"-a", "-"}));
}

TEST(PreTokenizer, InvertsMatchesAndGaps) {
  using enum SplitBehavior;
  EXPECT_EQ(split(splitter("[a-z]+", removed, true), "ab 12cd"), (Strings{"ab", "cd"}));
  EXPECT_EQ(split(splitter("[a-z]+", isolated, true), "ab 12cd"), (Strings{"ab", " 12", "cd"}));
  EXPECT_EQ(split(splitter("[a-z]", merged_with_previous, true), "ab-c"),
            (Strings{"a", "b-", "c"}));
}

TEST(PreTokenizer, SplitsByLiterals) {
  PreTokenizer dots;
  dots.add({SplitStep{{std::nullopt, ".."}, SplitBehavior::isolated, false}});
  EXPECT_EQ(split(dots, "a...b."), (Strings{"a", "..", ".b."}));
  PreTokenizer nothing;
  nothing.add({SplitStep{{std::nullopt, ""}, SplitBehavior::isolated, false}});
  EXPECT_EQ(split(nothing, "abc"), Strings{"abc"});
}

TEST(PreTokenizer, SplitsAtEmptyMatches) {
  EXPECT_EQ(split(splitter("(?=[A-Z])", SplitBehavior::isolated), "aBcDE"),
            (Strings{"a", "Bc", "D", "E"}));
  EXPECT_EQ(split(splitter("x*", SplitBehavior::removed), "axxb\xE2\x82\xAC"),
            (Strings{"a", "b", "\xE2\x82\xAC"}));
  EXPECT_EQ(split(splitter("", SplitBehavior::isolated), "ab"), (Strings{"a", "b"}));
  EXPECT_EQ(split(splitter("", SplitBehavior::isolated), ""), Strings{});
}

TEST(PreTokenizer, TakesStepsInOrder) {
  PreTokenizer steps = splitter("\\p{N}{1,3}", SplitBehavior::isolated);
  steps.add({SplitStep{{Pattern("[a-c]", "test"), ""}, SplitBehavior::isolated, false}});
  steps.add({std::nullopt});
  EXPECT_EQ(split(steps, "xa1234 z"), (Strings{" x", " a", " 123", " 4", " z"}));
  EXPECT_EQ(split(PreTokenizer(), "whole"), Strings{"whole"});
}

TEST(Pattern, TakesWhiteSpaceAsUnicodeDefinesIt) {
  const std::string spaces =
      "\t\n\v\f\r \xC2\x85\xC2\xA0\xE1\x9A\x80\xE2\x80\x80\xE2\x80\x8A\xE2\x80\xA8\xE2\x80\xA9"
      "\xE2\x80\xAF\xE2\x81\x9F\xE3\x80\x80";
  EXPECT_EQ(matches("\\s+", spaces), Strings{spaces});
  EXPECT_EQ(matches("[\\s]+", "a" + spaces), Strings{spaces});
  EXPECT_EQ(matches("\\S|[\\S]|[^\\s]", spaces), Strings{});
  // Once white space, and still one to PCRE2; a zero-width space never was.
  for (const std::string other : {"\xE1\xA0\x8E", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\x1F"}) {
    EXPECT_EQ(matches("\\s|[\\s]", other), Strings{}) << testing::PrintToString(other);
    EXPECT_EQ(matches("\\S", other), Strings{other});
    EXPECT_EQ(matches("[\\S]", other), Strings{other});
  }
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "   x \n"), (Strings{"  ", " ", " \n"}));
}

TEST(Pattern, KnowsTheOtherDialectsClasses) {
  EXPECT_EQ(matches("\\w+", "a\xCC\x81_9\xE2\x85\xA7-\xE2\x91\xA0"),
            (Strings{"a\xCC\x81_9\xE2\x85\xA7"}));
  EXPECT_EQ(matches("\\W+", "ab \xE2\x91\xA0.c"), (Strings{" \xE2\x91\xA0."}));
  EXPECT_EQ(matches("\\d+", "12\xD9\xA1x"), (Strings{"12\xD9\xA1"}));
  EXPECT_EQ(matches("\\h+", "12afG \t"), (Strings{"12af"}));
  EXPECT_EQ(matches("\\v", "\v\n"), Strings{"\v"});
  EXPECT_EQ(matches("\\u00e9|\\x41|\\x{1F600}",
                    "\xC3\xA9"
                    "A\xF0\x9F\x98\x80"),
            (Strings{"\xC3\xA9", "A", "\xF0\x9F\x98\x80"}));
  EXPECT_EQ(matches("\\bcat\\b", "cat concat cat\xCC\x81 cat"), (Strings{"cat", "cat"}));
  EXPECT_EQ(matches("\\Bat", "at cat"), Strings{"at"});
  EXPECT_EQ(matches("(?i:'s|'ll)", "'S 'lL '\xC5\xBF"), (Strings{"'S", "'lL", "'\xC5\xBF"}));
  EXPECT_EQ(matches("(?i)ab", "aB"), Strings{"aB"});
  EXPECT_EQ(matches("a.b", "a\nb a\rb"), Strings{"a\rb"});
  EXPECT_EQ(matches("(?m:a.b)", "a\nb"), Strings{"a\nb"});
  EXPECT_EQ(matches("^.", "ab\ncd\n"), (Strings{"a", "c"}));
  EXPECT_EQ(matches(".$", "ab\ncd"), (Strings{"b", "d"}));
  EXPECT_EQ(matches("[a\\-\\]\\\\]+", "a-]\\b"), Strings{"a-]\\"});
  EXPECT_EQ(matches("[\\s-z]+", "a -z"), Strings{" -z"});
  EXPECT_EQ(matches("[z-\\s]+", "a -z"), Strings{" -z"});
  EXPECT_EQ(matches("[+--]+", "+,-."), Strings{"+,-"});
  EXPECT_EQ(matches("[a-]+", "b-a"), Strings{"-a"});
  EXPECT_EQ(matches("\\p{^L}+|\\p{Lu}", "aB12"), (Strings{"B", "12"}));
}

TEST(Pattern, KnowsTheOtherDialectsRepeats) {
  EXPECT_EQ(matches("xa{,2}y", "xy xay xaay xaaay"), (Strings{"xy", "xay", "xaay"}));
  // {n,m}+ repeats the repeat; a possessive one could not give back.
  EXPECT_EQ(matches("(?:ab){1,2}+b?ab", "ababab"), Strings{"ababab"});
  EXPECT_EQ(matches("[0-9]{2}+", "12345"), Strings{"1234"});
  EXPECT_EQ(matches("(a|b){1}+c", "xababc"), Strings{"ababc"});
  EXPECT_EQ(matches("a++a", "aaa"), Strings{});
  EXPECT_EQ(matches("a+?", "aa"), (Strings{"a", "a"}));
  EXPECT_EQ(matches("a{x}|{", "a{x}{"), (Strings{"a{x}", "{"}));
  EXPECT_EQ(matches("\xC3\xA9{2}", "\xC3\xA9\xC3\xA9"), Strings{"\xC3\xA9\xC3\xA9"});
}

TEST(Pattern, NamesTheOffsetOfWhatItRefuses) {
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"abc(", "offset 4"},
      {"ab)", "offset 2"},
      {"a[b", "offset 1"},
      {"a[]", "offset 1"},
      {"x[a[b]]", "offset 3"},
      {"[a&&b]", "offset 2"},
      {"[[:alpha:]]", "offset 1"},
      {"a\\", "offset 1"},
      {"[a\\", "offset 2"},
      {"ab\\K", "offset 2"},
      {"(a)\\1", "offset 3"},
      {"(*UTF)a", "offset 0"},
      {"a(?R)", "offset 1"},
      {"a(?C1)", "offset 1"},
      {"(?<name>a)", "offset 0"},
      {"a(?i)b", "offset 1"},
      {"\\s\\p{Nonsense}", "offset"},
      {"\\pL", "offset 0"},
      {"*a", "offset"},
      {"a{2}?", "offset 1"},
      {"{2}", "offset 0"},
      {"[z-a]", "offset"},
      {"\\xzz", "offset 0"},
      {"\\u12", "offset 0"},
      {"\\x{110000}", "offset"},
      {"[\\W]", "offset 1"},
      {"a{70000}", "offset"},
      {std::string(70000, 'a'), "70000"},
      {std::string(1000, '('), "offset"},
  };
  for (const auto& [pattern, place] : damaged) {
    const std::string message = compile_error(pattern);
    EXPECT_EQ(message.find("file: field: "), 0u) << pattern.substr(0, 40) << ": " << message;
    EXPECT_NE(message.find(place), std::string::npos) << pattern.substr(0, 40) << ": " << message;
  }
  // Offsets count in the file's own expression, not in what it was turned into.
  EXPECT_NE(compile_error("\\s\\s\\S)").find("offset 6"), std::string::npos);
}

TEST(Pattern, StopsWhenAMatchTakesTooMuchWork) {
  const std::string text(30000, 'a');
  try {
    matches("(?:a+)+b|(?:a|aa)+c", text);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    EXPECT_NE(std::string(error.what()).find("too much work"), std::string::npos);
  }
}

TEST(Pattern, MatchesLongRuns) {
  const std::string spaces(1 << 20, ' ');
  const std::string pattern = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+|(?:x|y)+z?";
  EXPECT_EQ(matches(pattern, spaces), Strings{spaces});
  const std::string letters(1 << 17, 'x');
  EXPECT_EQ(matches(pattern, letters), Strings{letters});
}

TEST(Normalizer, ComposesLikeTheWholeText) {
  const Strings parts = {"a",
                         "e\xCC\x81",
                         "\xCC\x81",
                         "\xCC\xA3",
                         "\xC3\xA9",
                         "\xE1\x84\x80",
                         "\xE1\x85\xA1",
                         "\xE1\x86\xA8",
                         "\xEA\xB0\x80",
                         "\xE2\x84\xAB",
                         "\xEF\xAC\x81",
                         "\xE4\xB8\xAD",
                         "\xE0\xA4\x95\xE0\xA4\xBC",
                         "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5",
                         "\xE0\xAE\x92\xE0\xAF\x97",
                         "\n"};
  // Decomposing first puts every stretch through the library; composing must not care.
  uint32_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) {
      state = state * 1664525 + 1013904223;
      text += parts[(state >> 16) % parts.size()];
    }
    const std::string decomposed = unicode::normalise(text, unicode::Form::nfd);
    ASSERT_EQ(unicode::normalise(text, unicode::Form::nfc),
              unicode::normalise(decomposed, unicode::Form::nfc))
        << text;
  }
  EXPECT_EQ(unicode::normalise("cafe\xCC\x81!", unicode::Form::nfc), "caf\xC3\xA9!");
  EXPECT_EQ(unicode::normalise("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", unicode::Form::nfc),
            "\xEA\xB0\x81");
  EXPECT_EQ(unicode::normalise("e\xCC\x81\xCC\xA3", unicode::Form::nfc), "\xE1\xBA\xB9\xCC\x81");
  EXPECT_EQ(unicode::normalise("\xE2\x84\xAB", unicode::Form::nfc), "\xC3\x85");
  EXPECT_EQ(unicode::normalise("\xC3\xA9", unicode::Form::nfd), "e\xCC\x81");
  EXPECT_EQ(unicode::normalise("\xEF\xAC\x81\xC2\xB2", unicode::Form::nfkc), "fi2");
  EXPECT_EQ(unicode::normalise("\xEF\xAC\x81\xC3\xA9", unicode::Form::nfkd), "fie\xCC\x81");
  EXPECT_EQ(unicode::normalise("", unicode::Form::nfkd), "");
}

TEST(Normalizer, TakesStepsInOrder) {
  Normalizer normalizer;
  normalizer.add(LowercaseStep{});
  normalizer.add(ReplaceStep{{std::nullopt, "a"}, "bb"});
  normalizer.add(ReplaceStep{{Pattern("b{2,}", "test"), ""}, "<\xE2\x96\x81>"});
  normalizer.add(PrependStep{"_"});
  Pattern::Scratch scratch(100);
  EXPECT_EQ(normalizer.run("xAAy\xC4\xB0\xC3\x89", scratch), "_x<\xE2\x96\x81>yi\xCC\x87\xC3\xA9");
  EXPECT_EQ(normalizer.run("", scratch), "");
}

TEST(Normalizer, RefusesToFillTheMemory) {
  Normalizer normalizer;
  for (int i = 0; i < 8; ++i) {
    normalizer.add(ReplaceStep{{std::nullopt, "a"}, std::string(100, 'a')});
  }
  Pattern::Scratch scratch(100);
  EXPECT_THROW(normalizer.run("aaa", scratch), Error);
}

}  // namespace
}  // namespace fathom
