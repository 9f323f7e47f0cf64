// Finite automata over bytes, control tokens and calls of other automata: the pieces of a grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace fathom::grammar {

// 0..255: a byte; then control tokens; then calls, of which each stands for what a rule accepts.
using Symbol = int32_t;
constexpr Symbol kFirstToken = 256;
constexpr Symbol kFirstCall = 1 << 16;

constexpr int32_t kUnlimited = -1;

// Automata grow with counts in schemas: more states than this are an Error(usage).
constexpr size_t kMostStates = 200'000;

// Deterministic; state 0 is the first one.
struct Dfa {
  struct Edge {
    Symbol low;
    Symbol high;
    int32_t to;
  };
  struct State {
    std::vector<Edge> edges;  // ascending, none overlapping
    bool final = false;
  };
  std::vector<State> states;

  bool accepts(std::string_view bytes) const;
  // The state after `symbol`; -1: none.
  int32_t next(int32_t state, Symbol symbol) const;
};

// A nondeterministic automaton under construction. A fragment leads from one state to another;
// each call makes new states, except that or_else and sequence join what they are given.
class Nfa {
 public:
  struct Fragment {
    int32_t begin;
    int32_t end;
  };
  using Make = std::function<Fragment()>;

  int32_t add_state();
  void add_edge(int32_t from, Symbol low, Symbol high, int32_t to);
  void add_empty(int32_t from, int32_t to);

  Fragment empty();
  Fragment symbol(Symbol low, Symbol high);
  Fragment symbol(Symbol one) { return symbol(one, one); }
  Fragment literal(std::string_view bytes);
  Fragment sequence(const std::vector<Fragment>& parts);
  Fragment either(const std::vector<Fragment>& parts);  // of none: nothing is accepted
  // `most` may be kUnlimited.
  Fragment repeat(const Make& make, int64_t least, int64_t most);
  Fragment embed(const Dfa& dfa);

  Dfa determinise(Fragment whole) const;

 private:
  struct State {
    std::vector<Dfa::Edge> edges;
    std::vector<int32_t> empties;
  };
  std::vector<int32_t> closure(std::vector<int32_t> states) const;

  std::vector<State> states_;
};

Dfa intersect(const Dfa& a, const Dfa& b);
// What `a` accepts and `b` does not.
Dfa subtract(const Dfa& a, const Dfa& b);
// Without states from which nothing is accepted; an empty automaton where nothing is.
Dfa pruned(const Dfa& dfa);

}  // namespace fathom::grammar
