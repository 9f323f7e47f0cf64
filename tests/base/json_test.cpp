#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace fathom {
namespace {

std::string refusal(std::string_view text, int depth = 64) {
  try {
    parse_json(text, "x.json", depth);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::input);
    // The ordered parser must refuse the same.
    EXPECT_THROW(parse_ordered_json(text, "x.json", depth), Error);
    return error.what();
  }
  return "accepted";
}

void expect_refused(std::string_view text, std::string_view place, std::string_view reason) {
  const std::string message = refusal(text);
  EXPECT_TRUE(message.starts_with(std::string("x.json:") + std::string(place) + ": ")) << message;
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

TEST(Json, ReadsEveryKindOfValue) {
  const nlohmann::json value = parse_json(
      R"( {"a": [1, -2, 2.5, 1e4, true, false, null], "b": {"c": "\u00e9\ud83d\ude00"}, "": {}} )",
      "x.json");
  EXPECT_EQ(value["a"].size(), 7u);
  EXPECT_TRUE(value["a"][0].is_number_unsigned());
  EXPECT_TRUE(value["a"][1].is_number_integer());
  EXPECT_TRUE(value["a"][3].is_number_float());
  EXPECT_TRUE(value["a"][6].is_null());
  EXPECT_EQ(value["b"]["c"], "\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_TRUE(value[""].empty());
  EXPECT_EQ(parse_json("18446744073709551615", "x").get<uint64_t>(), UINT64_MAX);
  EXPECT_TRUE(parse_json("18446744073709551616", "x").is_number_float());
  EXPECT_EQ(parse_json("\"top\"", "x"), "top");
}

TEST(Json, AgreesWithThePlainParser) {
  const std::string text =
      R"([[],[[]],{"a":{"b":[{"c":1},{"d":[2,[3,{"e":null}]]}]},"z":0},"",[[1],[2,[3]]],-0.5])";
  EXPECT_EQ(parse_json(text, "x"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_ordered_json(text, "x"), nlohmann::ordered_json::parse(text));
}

TEST(Json, KeepsTheOrderOfKeysWhereAsked) {
  const std::string text = R"({"z":1,"a":{"y":2,"b":3},"m":[]})";
  EXPECT_EQ(parse_ordered_json(text, "x").dump(), text);
  EXPECT_EQ(parse_json(text, "x").dump(), R"({"a":{"b":3,"y":2},"m":[],"z":1})");
}

TEST(Json, NamesThePlaceOfWhatItRefuses) {
  expect_refused("", "1:1", "unexpected end of input");
  expect_refused("{\"a\": 1,\n  \"b\": }", "2:8", "unexpected '}'");
  expect_refused("[1, 2", "1:6", "unexpected end of input");
  expect_refused("{} x", "1:4", "expected end of input");
  expect_refused("[1,]", "1:4", "unexpected ']'");
  expect_refused("{'a': 1}", "1:2", "expected string literal");
  expect_refused("[01]", "1:3", "unexpected number literal");
  expect_refused("// c\n1", "1:1", "invalid literal");
}

TEST(Json, RefusesDuplicateKeysAtAnyDepth) {
  expect_refused("{\"a\":1,\n\"a\":2}", "2:3", "the key 'a' is given twice");
  expect_refused(R"([{"k":{"x":1,"y":2,"x":3}}])", "1:22", "the key 'x' is given twice");
  // The same key, written differently.
  expect_refused(R"({"a":1,"\u0061":2})", "1:15", "the key 'a' is given twice");
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2},{"b":{"a":1},"a":2}])", "x").size(), 3u);
}

TEST(Json, LimitsTheDepth) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '[') +
           std::string(static_cast<size_t>(levels), ']');
  };
  EXPECT_NO_THROW(parse_json(nested(64), "x"));
  EXPECT_NE(refusal(nested(65)).find("more than 64 nested levels"), std::string::npos);
  EXPECT_NO_THROW(parse_json(nested(3), "x", 3));
  EXPECT_NE(refusal(nested(4), 3).find("more than 3 nested levels"), std::string::npos);
  EXPECT_NE(refusal(std::string(50'000'000, '[')).find("nested levels"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal(objects).find("nested levels"), std::string::npos);
}

TEST(Json, RefusesNumbersThatAreNone) {
  for (const char* text : {"NaN", "nan", "Infinity", "-Infinity", "[-]", "[1.]", "[.5]", "[+1]",
                           "[1e]", "[0x10]", "1e999", "-1e999"}) {
    EXPECT_NE(refusal(text), "accepted") << text;
  }
  EXPECT_NE(refusal("[1,1e999]").find("1e999"), std::string::npos);
  EXPECT_EQ(parse_json("1e-999", "x").get<double>(), 0.0);
}

TEST(Json, RefusesTextThatIsNotUtf8) {
  for (const char* bad : {"\"\xff\"", "\"\xc3\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
                          "\"\xf5\x80\x80\x80\"", "{\"\x80\":1}", "\xff\xfe", R"("\ud800")"}) {
    const std::string message = refusal(bad);
    EXPECT_NE(message, "accepted") << bad;
    // Messages themselves stay readable.
    EXPECT_EQ(message.find('\xff'), std::string::npos);
  }
  expect_refused("\"a\tb\"", "1:3", "control character");
}

TEST(Json, RefusesZeroBytes) {
  using namespace std::string_view_literals;
  expect_refused("{}\0 and more"sv, "1:3", "zero byte");
  expect_refused("[1,\n\0 2]"sv, "2:1", "zero byte");
  EXPECT_EQ(parse_json(R"("\u0000")", "x").get<std::string>().size(), 1u);
}

TEST(Json, KeepsMessagesShort) {
  const std::string message = refusal("[\"" + std::string(100'000, 'a') + "\" 1]");
  EXPECT_LT(message.size(), 500u);
  const std::string key(100'000, 'k');
  EXPECT_LT(refusal("{\"" + key + "\":1,\"" + key + "\":1}").size(), 500u);
}

TEST(Json, TakesLargeObjectsInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":0";
  text += "}";
  // Walking all keys for each new one would be 2e10 comparisons.
  EXPECT_EQ(parse_ordered_json(text, "x").size(), 200'000u);
}

}  // namespace
}  // namespace fathom
