#include "grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fathom::grammar {
namespace {

using State = Grammar::State;

// Leaves out edges of bytes that no token brings alone.
std::vector<Grammar::Edge> byte_edges(const Dfa::Edge& edge, const std::vector<bool>& bytes) {
  std::vector<Grammar::Edge> edges;
  for (Symbol byte = edge.low; byte <= std::min<Symbol>(edge.high, 255); ++byte) {
    if (!bytes[static_cast<size_t>(byte)]) continue;
    const auto value = static_cast<uint8_t>(byte);
    if (!edges.empty() && edges.back().high + 1 == byte) {
      edges.back().high = value;
    } else {
      edges.push_back({value, value, edge.to});
    }
  }
  return edges;
}

// States of each rule as they come, `to` and `start` in the common numbering.
std::vector<State> join(const Rules& rules, const std::vector<bool>& bytes,
                        std::vector<int32_t>* starts) {
  int32_t count = 0;
  for (const Dfa& rule : rules.rules) {
    starts->push_back(rule.states.empty() ? -1 : count);
    count += static_cast<int32_t>(rule.states.size());
  }
  std::vector<State> states;
  for (size_t r = 0; r < rules.rules.size(); ++r) {
    for (const Dfa::State& from : rules.rules[r].states) {
      State state;
      state.final = from.final;
      for (Dfa::Edge edge : from.edges) {
        edge.to += (*starts)[r];
        const auto direct = byte_edges(edge, bytes);
        state.edges.insert(state.edges.end(), direct.begin(), direct.end());
        for (Symbol s = std::max(edge.low, kFirstToken); s <= edge.high; ++s) {
          if (s < kFirstCall) {
            state.tokens.push_back({s - kFirstToken, edge.to});
          } else {
            state.calls.push_back({(*starts)[static_cast<size_t>(s - kFirstCall)], edge.to});
          }
        }
      }
      states.push_back(std::move(state));
    }
  }
  return states;
}

// Marks the states from which their rule's end can be reached.
std::vector<bool> productive(const std::vector<State>& states) {
  std::vector<bool> alive(states.size(), false);
  const auto lives = [&](int32_t state) { return state >= 0 && alive[static_cast<size_t>(state)]; };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = states.size(); i-- > 0;) {
      if (alive[i]) continue;
      const State& state = states[i];
      const auto leads = [&](const auto& edge) { return lives(edge.to); };
      alive[i] = state.final || std::any_of(state.edges.begin(), state.edges.end(), leads) ||
                 std::any_of(state.tokens.begin(), state.tokens.end(), leads) ||
                 std::any_of(state.calls.begin(), state.calls.end(),
                             [&](const auto& call) { return lives(call.to) && lives(call.start); });
      changed = changed || alive[i];
    }
  }
  return alive;
}

// Whether a rule's first state comes back to itself by calls alone.
void check_calls(const std::vector<State>& states) {
  enum class Mark : uint8_t { fresh, open, done };
  std::vector<Mark> marks(states.size(), Mark::fresh);
  std::vector<std::pair<int32_t, size_t>> path;
  const auto enter = [&](int32_t state) {
    Mark& mark = marks[static_cast<size_t>(state)];
    if (mark == Mark::open) fail_usage("the schema refers to itself without end");
    if (mark == Mark::done) return;
    mark = Mark::open;
    path.emplace_back(state, 0);
  };
  for (size_t i = 0; i < states.size(); ++i) {
    if (marks[i] != Mark::fresh) continue;
    enter(static_cast<int32_t>(i));
    while (!path.empty()) {
      auto& [state, call] = path.back();
      const auto& calls = states[static_cast<size_t>(state)].calls;
      if (call == calls.size()) {
        marks[static_cast<size_t>(state)] = Mark::done;
        path.pop_back();
      } else {
        enter(calls[call++].start);
      }
    }
  }
}

// The one state that all of low..high lead to; -1: there is none.
int32_t common_target(const State& state, int low, int high) {
  int32_t target = -1;
  for (const Grammar::Edge& edge : state.edges) {
    if (edge.high < low || edge.low > high) continue;
    if (edge.low > low || (target >= 0 && edge.to != target)) return -1;
    target = edge.to;
    if (edge.high >= high) return target;
    low = edge.high + 1;
  }
  return -1;
}

// The same for the rest of a UTF-8 sequence: `tail` bytes, the first of them low..high.
int32_t common_tail(const std::vector<State>& states, int32_t from, int tail, int low, int high) {
  if (from < 0) return -1;
  const int32_t next = common_target(states[static_cast<size_t>(from)], low, high);
  return tail == 1 ? next : common_tail(states, next, tail - 1, 0x80, 0xBF);
}

// The state that every plain character leads to; -1: there is none.
int32_t plain_target(const std::vector<State>& states, int32_t from) {
  const State& state = states[static_cast<size_t>(from)];
  const int32_t target = common_target(state, 0x20, '"' - 1);
  if (target < 0 || common_target(state, '"' + 1, '\\' - 1) != target ||
      common_target(state, '\\' + 1, 0x7F) != target) {
    return -1;
  }
  struct Lead {
    int low, high, tail, first, last;
  };
  constexpr Lead kLeads[] = {{0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF},
                             {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F},
                             {0xEE, 0xEF, 2, 0x80, 0xBF}, {0xF0, 0xF0, 3, 0x90, 0xBF},
                             {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F}};
  for (const Lead& lead : kLeads) {
    const int32_t after = common_target(state, lead.low, lead.high);
    if (common_tail(states, after, lead.tail, lead.first, lead.last) != target) return -1;
  }
  return target;
}

bool reads_plain(const State& state) {
  return std::any_of(state.edges.begin(), state.edges.end(), [](const auto& edge) {
    const int first = std::max<int>(edge.low, 0x20);
    const bool only_special = first == edge.high && (first == '"' || first == '\\');
    return first <= edge.high && !only_special;
  });
}

// Follows each chain of plain characters to its end and counts back from there. Where some of them
// may follow at the end, but not all, the chain counts for nothing.
void count_plain(std::vector<State>& states) {
  std::vector<int32_t> targets;
  for (size_t i = 0; i < states.size(); ++i) {
    targets.push_back(plain_target(states, static_cast<int32_t>(i)));
  }
  enum class Mark : uint8_t { fresh, open, done };
  std::vector<Mark> marks(states.size(), Mark::fresh);
  for (size_t i = 0; i < states.size(); ++i) {
    std::vector<size_t> chain;
    size_t at = i;
    while (marks[at] == Mark::fresh && targets[at] >= 0) {
      marks[at] = Mark::open;
      chain.push_back(at);
      at = static_cast<size_t>(targets[at]);
    }
    int32_t count = states[at].plain;
    if (marks[at] == Mark::open) count = Grammar::kAnyNumber;
    const bool counts = count > 0 || !reads_plain(states[at]);
    marks[at] = Mark::done;
    for (; !chain.empty(); chain.pop_back()) {
      count = std::min(count + 1, Grammar::kAnyNumber);
      states[chain.back()].plain = counts ? count : 0;
      marks[chain.back()] = Mark::done;
    }
  }
}

}  // namespace

Grammar finish_grammar(const Rules& rules, const std::vector<bool>& bytes) {
  Grammar grammar;
  std::vector<int32_t> starts;
  grammar.states = join(rules, bytes, &starts);
  const std::vector<bool> alive = productive(grammar.states);
  const auto dead = [&](int32_t state) { return state < 0 || !alive[static_cast<size_t>(state)]; };
  if (dead(starts[0])) fail_usage("nothing fits the schema");
  for (State& state : grammar.states) {
    std::erase_if(state.edges, [&](const auto& edge) { return dead(edge.to); });
    std::erase_if(state.tokens, [&](const auto& edge) { return dead(edge.to); });
    std::erase_if(state.calls, [&](const auto& call) { return dead(call.to) || dead(call.start); });
  }
  check_calls(grammar.states);
  count_plain(grammar.states);
  grammar.start = starts[0];
  return grammar;
}

}  // namespace fathom::grammar
