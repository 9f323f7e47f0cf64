// Draws texts from schemas' grammars, token by token, for tests/grammar/validate.py to judge.
// In: one {"schema": ..., "seed": N, "count": N} per line. Out: one {"texts": [...]} or
// {"refused": "..."} for each.
#include <iostream>
#include <random>

#include "base/error.h"
#include "tests/grammar/follow.h"
#include "tests/grammar/vocabulary.h"

namespace fathom::grammar {
namespace {

using nlohmann::ordered_json;

constexpr int kMostTokens = 4000;

class Sampler {
 public:
  explicit Sampler(const TokenTrie& trie, const std::vector<std::string>& tokens)
      : trie_(trie), tokens_(tokens) {}

  // Draws among all allowed tokens alike, but soon prefers those that close something.
  std::string draw(const Grammar& grammar, TokenMasks& masks, std::mt19937_64& random) const {
    std::string text;
    Stacks stacks;
    Places places = begin_at(grammar, stacks, grammar.start, Stacks::kBottom);
    for (int step = 0; step < kMostTokens; ++step) {
      TokenSet allowed(trie_.tokens());
      masks.add_allowed(places, stacks, &allowed);
      std::vector<size_t> choices;
      std::vector<size_t> closing;
      for (size_t id = 0; id < tokens_.size(); ++id) {
        if (!allowed.has(static_cast<int32_t>(id))) continue;
        choices.push_back(id);
        const char last = tokens_[id].back();
        if (last == '"' || last == '}' || last == ']') closing.push_back(id);
      }
      if (places.ended && (choices.empty() || random() % 3 == 0)) return text;
      if (choices.empty()) throw std::runtime_error("stuck after: " + text);
      const bool close = !closing.empty() && random() % 8 < (step < 60 ? 2 : 7);
      const auto& from = close ? closing : choices;
      const std::string& token = tokens_[from[random() % from.size()]];
      for (const char byte : token) {
        places = read_byte(grammar, stacks, places, static_cast<uint8_t>(byte));
      }
      if (places.dead()) throw std::runtime_error("an allowed token does not fit: " + token);
      text += token;
    }
    return "";  // too long to be of use
  }

 private:
  const TokenTrie& trie_;
  const std::vector<std::string>& tokens_;
};

ordered_json answer(const ordered_json& line, const TokenTrie& trie, const Sampler& sampler) {
  try {
    const Grammar grammar = schema_grammar(line["schema"], trie.single_bytes());
    TokenMasks masks(grammar, trie);
    std::mt19937_64 random(line["seed"].get<uint64_t>());
    ordered_json texts = ordered_json::array();
    for (int i = 0; i < line["count"]; ++i) {
      const std::string text = sampler.draw(grammar, masks, random);
      if (!text.empty()) texts.push_back(text);
    }
    return {{"texts", texts}};
  } catch (const Error& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace
}  // namespace fathom::grammar

int main() {
  using namespace fathom::grammar;
  const std::vector<std::string> tokens = test_vocabulary();
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const TokenTrie trie(views);
  const Sampler sampler(trie, tokens);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(nlohmann::ordered_json::parse(line), trie, sampler).dump() << "\n";
  }
}
