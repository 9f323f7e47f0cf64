// A grammar: rules that call one another, ready to be followed byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grammar/automaton.h"

namespace fathom::grammar {

// As it is put together: rule 0 is the whole. Symbols from kFirstCall on call rules.
struct Rules {
  std::vector<Dfa> rules;
};

// All states of all rules in one numbering.
struct Grammar {
  struct Edge {
    uint8_t low;
    uint8_t high;
    int32_t to;
  };
  struct Call {
    int32_t start;  // the rule's first state
    int32_t to;     // where it goes on after the rule
  };
  struct TokenEdge {
    int32_t token;  // symbol - kFirstToken
    int32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    std::vector<TokenEdge> tokens;
    bool final = false;  // the rule may end here
    // So many plain characters of a JSON string (see TokenTrie) may follow in this rule, whichever
    // they are; kAnyNumber: no limit.
    int32_t plain = 0;
  };
  static constexpr int32_t kAnyNumber = 1 << 30;

  std::vector<State> states;
  int32_t start = 0;
};

// From every state that can be reached something whole can be reached. `bytes`: which of the 256
// have a token of their own; the others are used nowhere, so that a text never gets stuck.
// Error(usage) where nothing whole is left, or where a rule calls itself before anything is read.
Grammar finish_grammar(const Rules& rules, const std::vector<bool>& bytes);

}  // namespace fathom::grammar
