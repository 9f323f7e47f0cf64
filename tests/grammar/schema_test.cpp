// What the grammars of schemas accept and what they refuse.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/grammar/follow.h"

namespace fathom::grammar {
namespace {

struct Case {
  const char* schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void check(const Case& one) {
  const Grammar grammar = schema_grammar(one.schema);
  for (const auto& text : one.good) EXPECT_TRUE(accepts(grammar, text)) << one.schema << text;
  for (const auto& text : one.bad) EXPECT_FALSE(accepts(grammar, text)) << one.schema << text;
}

std::string refusal(const char* schema) {
  try {
    schema_grammar(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(Schema, AnyValueIsJson) {
  check({"{}",
         {"null", "true", "false", "0", "-1.5e+10", R"("a\u00e9\n\ud83d\ude00é")", "[]", "[1, [2]]",
          R"({"a": {"b": []}, "c":1})", "{\n  \"a\": [\n    1\n  ]\n}"},
         {"", "nul", "01", "1.", "+1", ".5", "\"a", "\"\n\"", R"("\x")", R"("\ud83d")", "[1,]",
          "{a:1}", "{\"a\"}", "[1] ", "\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\""}});
}

TEST(Schema, TypesEnumsAndConstants) {
  check({R"({"type":"integer"})", {"0", "-7", "123"}, {"1.5", "\"1\"", "true", "1e3"}});
  check({R"({"type":["string","null"]})", {"null", "\"\""}, {"0", "[]"}});
  check({R"({"enum":["a\"b",1,null,{"x":[1,2]}]})",
         {R"("a\"b")", "1", "null", R"({"x":[1,2]})"},
         {"\"a\"", "2", "{}"}});
  check({R"({"type":"string","enum":["a",1,"bb"],"maxLength":1})", {"\"a\""}, {"1", "\"bb\""}});
  check({R"({"const":"x","enum":["x","y"]})", {"\"x\""}, {"\"y\""}});
  check({R"({"minimum":3,"enum":[1,3,4.5]})", {"3", "4.5"}, {"1"}});
}

TEST(Schema, NumbersWithinBounds) {
  check({R"({"type":"integer","minimum":-3,"maximum":120})",
         {"-3", "-1", "0", "9", "99", "100", "119", "120"},
         {"-4", "-0", "121", "1000", "-10", "200", "1.0"}});
  check({R"({"type":"integer","exclusiveMinimum":0})", {"1", "10"}, {"0", "-0", "-1"}});
  check({R"({"type":"number","minimum":0.5,"exclusiveMaximum":2.25})",
         {"0.5", "0.50", "0.51", "1", "2", "2.2", "2.249", "1.999999"},
         {"0", "0.4999", "2.25", "2.250", "2.26", "3", "10", "-1", "1e0"}});
  check({R"({"type":"number","maximum":-1.5})",
         {"-1.5", "-1.50", "-1.6", "-2", "-100.25"},
         {"-1.4", "-1", "0", "1", "-0"}});
  check(
      {R"({"type":"integer","multipleOf":7,"minimum":10})", {"14", "21", "700"}, {"7", "15", "0"}});
  check({R"({"type":"integer","minimum":1e3})", {"1000", "2000"}, {"999"}});
}

TEST(Schema, StringsOfLengthsAndPatterns) {
  check({R"({"type":"string","minLength":2,"maxLength":3})",
         {"\"ab\"", "\"abc\"", "\"é€\"", R"("\n\u0041")", R"("\ud83d\ude00x")"},
         {"\"\"", "\"a\"", "\"abcd\"", R"("\ud83d\ude00")"}});
  check({R"({"pattern":"^[A-Z]{2}-\\d+$"})", {"\"AB-1\"", "\"XY-123\""}, {"\"A-1\"", "\"AB-\""}});
  check({R"({"type":"string","pattern":"b+"})", {"\"b\"", "\"abbc\""}, {"\"ac\"", "\"\""}});
  check({R"x({"type":"string","pattern":"^(?:a|b$)"})x",
         {"\"a\"", "\"axy\"", "\"b\""},
         {"\"bx\"", "\"xa\""}});
  check({R"({"type":"string","pattern":"^[^\"a]$"})",
         {"\"b\"", "\"\\\\\"", "\"é\"", R"("\n")"},
         {"\"a\"", R"("\"")", "\"bb\""}});
  check({R"({"type":"string","pattern":"^a.*z$","maxLength":4})",
         {"\"az\"", "\"axyz\""},
         {"\"axxyz\"", "\"ay\""}});
  check({R"({"type":"string","format":"date"})",
         {"\"2024-02-28\""},
         {"\"2024-02-30\"", "\"2024-13-01\""}});
}

TEST(Schema, Arrays) {
  check({R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1, 2]", "[1,2,3]", "[\n  1,\n  2]"},
         {"[]", "[1,2,3,4]", "[\"a\"]", "[1 ,2]"}});
  check({R"({"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}})",
         {"[]", "[\"a\"]", "[\"a\",1,2]"},
         {"[1]", "[\"a\",\"b\"]"}});
  check({R"({"type":"array","maxItems":0})", {"[]", "[ ]"}, {"[1]"}});
}

TEST(Schema, Objects) {
  check({R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},
            "c":{"type":"null"}},"required":["b"],"additionalProperties":false})",
         {R"({"b":""})", R"({"a": 1, "b": "x", "c": null})", R"({"b":"x","c":null})"},
         {"{}", R"({"a":1})", R"({"b":"x","a":1})", R"({"b":"x","d":1})", R"({"b":"x",})",
          R"({,"b":"x"})"}});
  check({R"({"type":"object","properties":{"ab":{"type":"integer"}},
            "additionalProperties":{"type":"boolean"}})",
         {"{}", R"({"ab":1})", R"({"a":true,"abc":false})", R"({"ab":1,"x":true,"y":true})"},
         {R"({"ab":true})", R"({"x":1})", R"({"\u0061b":true})"}});
  check({R"({"type":"object","required":["k"]})", {R"({"k":[]})", R"({"k":1,"z":2})"}, {"{}"}});
  check({R"({"properties":{"a":{}}})", {"{}", R"({"a":[1]})"}, {R"({"b":1})", "1"}});
}

TEST(Schema, AlternativesReferencesAndCombinations) {
  check(
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1},{"type":"integer","minimum":5}]})",
       {"3", "7", "\"a\""},
       {"\"ab\"", "null"}});
  check({R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{
            "v":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},
            "required":["v"],"additionalProperties":false}}})",
         {R"({"v":1})", R"({"v":1,"children":[{"v":2,"children":[]},{"v":3}]})"},
         {R"({"children":[]})", R"({"v":1,"children":[1]})"}});
  check({R"({"allOf":[{"type":"integer","minimum":2},{"maximum":5}]})", {"2", "5"}, {"1", "6"}});
  check({R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},
            "anyOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
         {"{}"}});
  check({R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"x"},"n":{"type":"integer"}},
            "required":["kind","n"]},{"type":"object","properties":{"kind":{"const":"y"}},
            "required":["kind"]}]})",
         {R"({"kind":"x","n":1})", R"({"kind":"y"})"},
         {R"({"kind":"x"})", R"({"kind":"y","n":1})"}});
}

TEST(Schema, WhatCannotBeEnforcedIsRefusedByName) {
  EXPECT_EQ(refusal(R"({"type":"object","properties":{"a":{"not":{}}}})"),
            "#/properties/a: 'not' cannot be enforced");
  EXPECT_EQ(refusal(R"({"type":"array","uniqueItems":true})"),
            "#: 'uniqueItems' cannot be enforced");
  EXPECT_EQ(refusal(R"x({"type":"string","pattern":"(?=a)"})x"),
            "#/pattern: what looks around cannot be enforced at offset 0 of '(?=a)'");
  EXPECT_EQ(refusal(R"({"type":"thing"})"), "#: 'thing' is no type");
  EXPECT_EQ(refusal(R"({"$ref":"#/$defs/x"})"), "#: '$ref': there is no '#/$defs/x'");
  EXPECT_EQ(refusal(R"({"$ref":"#"})"), "#: the schema refers to itself without end");
  EXPECT_EQ(refusal(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"),
            "#/anyOf/0: the schema refers to itself without end");
  EXPECT_EQ(refusal(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"),
            "nothing fits the schema");
  EXPECT_EQ(refusal(R"({"type":"integer","minimum":3,"maximum":2})"), "nothing fits the schema");
  EXPECT_EQ(refusal(R"({"oneOf":[{"type":"integer"},{"minimum":3}]})"),
            "#: 'oneOf' cannot be enforced: a value might fit both 0 and 1");
  EXPECT_EQ(refusal(R"({"type":"object","minProperties":1})"),
            "#: 'minProperties' cannot be enforced");
}

}  // namespace
}  // namespace fathom::grammar
