#include "sample/stop_strings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "tests/paths.h"

namespace fathom {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.text << '"' << (outcome.stopped ? " stopped" : "");
}

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings filter(stops);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopStrings::Result result = filter.push(piece);
    outcome.text += result.text;
    if (result.stopped) return {outcome.text, true};
  }
  outcome.text += filter.finish();
  return {outcome.text, filter.stopped()};
}

// The definition, over the whole text.
Outcome whole(const std::vector<std::string>& stops, const std::string& text) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop));
  if (first == std::string::npos) return {text, false};
  return {text.substr(0, first), true};
}

TEST(StopStrings, PublicCase) {
  const auto cases = nlohmann::json::parse(
      read_text(test_paths::golden() + "/sampling-cases.json"))["stop_strings"];
  const auto pieces = cases["pieces"].get<std::vector<std::string>>();
  for (const auto& item : cases["cases"]) {
    const Outcome expected{item["text"].get<std::string>(), true};
    EXPECT_EQ(run({item["stop"].get<std::string>()}, pieces), expected);
  }
}

TEST(StopStrings, WhatOnlyLookedLikeAStopIsShown) {
  EXPECT_EQ(run({"END"}, {"E", "N", "ENX", "EN"}), (Outcome{"ENENXEN", false}));
}

TEST(StopStrings, HoldsBackOnlyWhatMayStillMatch) {
  StopStrings filter({"END"});
  EXPECT_EQ(filter.push("the E").text, "the ");
  EXPECT_EQ(filter.push("N").text, "");
  EXPECT_EQ(filter.push("E").text, "EN");
  EXPECT_EQ(filter.finish(), "E");
}

TEST(StopStrings, AnEarlierMatchInProgressIsWaitedFor) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xab", "c", "d!"}), (Outcome{"x", true}));
  EXPECT_EQ(run({"abcd", "bc"}, {"xab", "c", "e!"}), (Outcome{"xa", true}));
  EXPECT_EQ(run({"abcd", "bc"}, {"xab", "c"}), (Outcome{"xa", true}));
}

TEST(StopStrings, NothingFollowsAStop) {
  StopStrings filter({"|"});
  EXPECT_TRUE(filter.push("a|b").stopped);
  EXPECT_EQ(filter.push("more").text, "");
  EXPECT_TRUE(filter.push("more").stopped);
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopStrings, NoStopsPassEverything) {
  EXPECT_EQ(run({}, {"a", "", "b"}), (Outcome{"ab", false}));
}

TEST(StopStrings, AnEmptyStopIsRefusedByItsPlace) {
  try {
    StopStrings({"a", ""});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(std::string(error.what()).rfind("stop[1]:", 0), 0u) << error.what();
  }
}

TEST(StopStrings, AnyCutGivesTheWholeTextsResult) {
  std::mt19937 random(1);
  const auto word = [&](int least, int most) {
    std::string text(least + random() % (most - least + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = word(1, 6);
    const std::string text = word(0, 16);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 4;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    const Outcome expected = whole(stops, text);
    stopped += expected.stopped ? 1 : 0;
    ASSERT_EQ(run(stops, pieces), expected) << text << " stops: " << stops[0];
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 19000);
}

}  // namespace
}  // namespace fathom
