// Following a schema's grammar with bytes and with tokens.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/rule_maker.h"
#include "grammar/token_masks.h"

namespace fathom::grammar {

inline Grammar schema_grammar(const nlohmann::ordered_json& schema,
                              const std::vector<bool>& bytes = std::vector<bool>(256, true)) {
  RuleMaker maker(schema);
  Nfa whole;
  const Dfa rule = whole.determinise(whole.symbol(maker.value(schema, "#")));
  maker.rules().rules[0] = rule;
  return finish_grammar(maker.rules(), bytes);
}

inline Grammar schema_grammar(const char* schema) {
  return schema_grammar(nlohmann::ordered_json::parse(schema));
}

// Whether the text is a whole one.
inline bool accepts(const Grammar& grammar, std::string_view text) {
  Stacks stacks;
  Places places = begin_at(grammar, stacks, grammar.start, Stacks::kBottom);
  for (const char byte : text) {
    places = read_byte(grammar, stacks, places, static_cast<uint8_t>(byte));
    if (places.dead()) return false;
  }
  return places.ended;
}

}  // namespace fathom::grammar
