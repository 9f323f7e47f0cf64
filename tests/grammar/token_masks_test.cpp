// Masks against the definition: a token is allowed where its bytes can be read one after another.
#include "grammar/token_masks.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/grammar/follow.h"
#include "tests/grammar/vocabulary.h"

namespace fathom::grammar {
namespace {

const char* const kSchemas[] = {
    "{}",
    R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer","minimum":-5,
       "maximum":1200},"list":{"type":"array","items":{"type":"object","properties":{"a":{}}}}},
       "required":["n"]})",
    R"({"type":"array","items":{"anyOf":[{"type":"string","maxLength":3},{"type":"number"},
       {"type":"object","additionalProperties":{"type":"boolean"}}]}})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"a":{"type":"string",
       "minLength":1,"maxLength":90},"t":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},
       "required":["a","t"]}}})",
    R"({"type":"object","properties":{"a":{"type":"string","pattern":"^.{3}e?x*$"},
       "b":{"type":"string","pattern":"é"}},"additionalProperties":{"enum":["ab",12,null]}})",
};

TEST(TokenMasks, AllowWhatCanBeRead) {
  const std::vector<std::string> tokens = test_vocabulary();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const TokenTrie trie(views);
  std::mt19937 random(7);
  for (const char* schema : kSchemas) {
    const Grammar grammar = schema_grammar(schema);
    TokenMasks masks(grammar, trie);
    for (int text = 0; text < 12; ++text) {
      Stacks stacks;
      Places places = begin_at(grammar, stacks, grammar.start, Stacks::kBottom);
      for (int step = 0; step < 40; ++step) {
        TokenSet allowed(trie.tokens());
        masks.add_allowed(places, stacks, &allowed);
        std::vector<int32_t> choices;
        for (size_t id = 0; id < tokens.size(); ++id) {
          Places after = places;
          for (const char byte : tokens[id]) {
            after = read_byte(grammar, stacks, after, static_cast<uint8_t>(byte));
          }
          const bool can = !tokens[id].empty() && !after.dead();
          ASSERT_EQ(allowed.has(static_cast<int32_t>(id)), can)
              << schema << " token " << tokens[id] << " step " << step;
          if (can) choices.push_back(static_cast<int32_t>(id));
        }
        ASSERT_TRUE(places.ended || !choices.empty()) << schema;
        if (choices.empty()) break;
        const auto pick = static_cast<size_t>(choices[random() % choices.size()]);
        for (const char byte : tokens[pick]) {
          places = read_byte(grammar, stacks, places, static_cast<uint8_t>(byte));
        }
      }
    }
  }
}

TEST(TokenMasks, BytesWithoutATokenAreNotNeeded) {
  // No token brings 'x' alone: nothing may lead to where only it can follow.
  std::vector<std::string> tokens = test_vocabulary();
  tokens['x'].clear();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const TokenTrie trie(views);
  EXPECT_FALSE(trie.single_bytes()['x']);
  const auto schema = nlohmann::ordered_json::parse(R"({"enum":["box","bot"]})");
  const Grammar grammar = schema_grammar(schema, trie.single_bytes());
  EXPECT_TRUE(accepts(grammar, "\"bot\""));
  EXPECT_FALSE(accepts(grammar, "\"box\""));
}

TEST(TokenSet, KeepsOnlyItsTokens) {
  TokenSet set(130);
  set.add(3);
  set.add(129);
  std::vector<float> logits(200, 1.0F);
  set.keep_only(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(logits[i] == 1.0F, i == 3 || i == 129) << i;
  }
}

}  // namespace
}  // namespace fathom::grammar
