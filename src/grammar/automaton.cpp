#include "grammar/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace fathom::grammar {
namespace {

void check_size(size_t states) {
  if (states > kMostStates) {
    fail_usage("the schema needs more than {} states: smaller counts make it smaller", kMostStates);
  }
}

// Pairs of states of two automata; the second is -1 where it accepts nothing more.
Dfa product(const Dfa& a, const Dfa& b, bool subtracting) {
  Dfa result;
  if (a.states.empty() || (b.states.empty() && !subtracting)) return result;
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers;
  std::vector<std::pair<int32_t, int32_t>> pairs;
  const auto number_of = [&](std::pair<int32_t, int32_t> pair) {
    const auto [at, added] = numbers.try_emplace(pair, static_cast<int32_t>(pairs.size()));
    if (added) pairs.push_back(pair);
    check_size(pairs.size());
    return at->second;
  };
  number_of({0, b.states.empty() ? -1 : 0});
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [x, y] = pairs[i];
    Dfa::State state;
    const bool second = y >= 0 && b.states[static_cast<size_t>(y)].final;
    state.final = a.states[static_cast<size_t>(x)].final && second != subtracting;
    for (const Dfa::Edge& edge : a.states[static_cast<size_t>(x)].edges) {
      Symbol from = edge.low;
      if (y >= 0) {
        for (const Dfa::Edge& other : b.states[static_cast<size_t>(y)].edges) {
          if (other.high < from || other.low > edge.high) continue;
          const Symbol low = std::max(from, other.low);
          const Symbol high = std::min(edge.high, other.high);
          if (low > from && subtracting) {
            state.edges.push_back({from, low - 1, number_of({edge.to, -1})});
          }
          state.edges.push_back({low, high, number_of({edge.to, other.to})});
          from = high + 1;
        }
      }
      if (from <= edge.high && subtracting) {
        state.edges.push_back({from, edge.high, number_of({edge.to, -1})});
      }
    }
    result.states.push_back(std::move(state));
  }
  return pruned(result);
}

}  // namespace

int32_t Dfa::next(int32_t state, Symbol symbol) const {
  for (const Edge& edge : states[static_cast<size_t>(state)].edges) {
    if (symbol < edge.low) return -1;
    if (symbol <= edge.high) return edge.to;
  }
  return -1;
}

bool Dfa::accepts(std::string_view bytes) const {
  if (states.empty()) return false;
  int32_t at = 0;
  for (const char byte : bytes) {
    at = next(at, static_cast<uint8_t>(byte));
    if (at < 0) return false;
  }
  return states[static_cast<size_t>(at)].final;
}

int32_t Nfa::add_state() {
  check_size(states_.size());
  states_.emplace_back();
  return static_cast<int32_t>(states_.size() - 1);
}

void Nfa::add_edge(int32_t from, Symbol low, Symbol high, int32_t to) {
  states_[static_cast<size_t>(from)].edges.push_back({low, high, to});
}

void Nfa::add_empty(int32_t from, int32_t to) {
  states_[static_cast<size_t>(from)].empties.push_back(to);
}

Nfa::Fragment Nfa::empty() {
  const int32_t state = add_state();
  return {state, state};
}

Nfa::Fragment Nfa::symbol(Symbol low, Symbol high) {
  const Fragment fragment{add_state(), add_state()};
  add_edge(fragment.begin, low, high, fragment.end);
  return fragment;
}

Nfa::Fragment Nfa::literal(std::string_view bytes) {
  Fragment fragment = empty();
  for (const char byte : bytes) {
    const int32_t next = add_state();
    const auto symbol = static_cast<uint8_t>(byte);
    add_edge(fragment.end, symbol, symbol, next);
    fragment.end = next;
  }
  return fragment;
}

Nfa::Fragment Nfa::sequence(const std::vector<Fragment>& parts) {
  if (parts.empty()) return empty();
  for (size_t i = 1; i < parts.size(); ++i) add_empty(parts[i - 1].end, parts[i].begin);
  return {parts.front().begin, parts.back().end};
}

Nfa::Fragment Nfa::either(const std::vector<Fragment>& parts) {
  const Fragment fragment{add_state(), add_state()};
  for (const Fragment& part : parts) {
    add_empty(fragment.begin, part.begin);
    add_empty(part.end, fragment.end);
  }
  return fragment;
}

Nfa::Fragment Nfa::repeat(const Make& make, int64_t least, int64_t most) {
  const Fragment whole{add_state(), add_state()};
  int32_t at = whole.begin;
  for (int64_t i = 0; i < least; ++i) {
    const Fragment part = make();
    add_empty(at, part.begin);
    at = part.end;
  }
  if (most == kUnlimited) {
    const Fragment part = make();
    const int32_t loop = add_state();
    add_empty(at, loop);
    add_empty(loop, part.begin);
    add_empty(part.end, loop);
    at = loop;
  }
  for (int64_t i = least; i < most; ++i) {
    const Fragment part = make();
    add_empty(at, whole.end);
    add_empty(at, part.begin);
    at = part.end;
  }
  add_empty(at, whole.end);
  return whole;
}

Nfa::Fragment Nfa::embed(const Dfa& dfa) {
  const Fragment whole{add_state(), add_state()};
  std::vector<int32_t> numbers;
  for (const Dfa::State& state : dfa.states) {
    numbers.push_back(add_state());
    if (state.final) add_empty(numbers.back(), whole.end);
  }
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    for (const Dfa::Edge& edge : dfa.states[i].edges) {
      add_edge(numbers[i], edge.low, edge.high, numbers[static_cast<size_t>(edge.to)]);
    }
  }
  if (!numbers.empty()) add_empty(whole.begin, numbers.front());
  return whole;
}

std::vector<int32_t> Nfa::closure(std::vector<int32_t> states) const {
  std::vector<int32_t> todo = states;
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  while (!todo.empty()) {
    const int32_t state = todo.back();
    todo.pop_back();
    for (const int32_t next : states_[static_cast<size_t>(state)].empties) {
      const auto at = std::lower_bound(states.begin(), states.end(), next);
      if (at != states.end() && *at == next) continue;
      states.insert(at, next);
      todo.push_back(next);
    }
  }
  return states;
}

// Subset construction; where edges of a set overlap, they are cut at one another's ends.
Dfa Nfa::determinise(Fragment whole) const {
  Dfa dfa;
  std::map<std::vector<int32_t>, int32_t> numbers;
  std::vector<std::vector<int32_t>> sets;
  const auto number_of = [&](std::vector<int32_t> states) {
    std::vector<int32_t> closed = closure(std::move(states));
    std::erase_if(closed, [&](int32_t state) {
      return state != whole.end && states_[static_cast<size_t>(state)].edges.empty();
    });
    const auto [at, added] = numbers.try_emplace(closed, static_cast<int32_t>(sets.size()));
    if (added) sets.push_back(std::move(closed));
    check_size(sets.size());
    return at->second;
  };
  number_of({whole.begin});
  for (size_t i = 0; i < sets.size(); ++i) {
    Dfa::State state;
    std::vector<Dfa::Edge> edges;
    std::vector<Symbol> cuts;
    for (const int32_t member : sets[i]) {
      state.final = state.final || member == whole.end;
      for (const Dfa::Edge& edge : states_[static_cast<size_t>(member)].edges) {
        edges.push_back(edge);
        cuts.push_back(edge.low);
        cuts.push_back(edge.high + 1);
      }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
      std::vector<int32_t> targets;
      for (const Dfa::Edge& edge : edges) {
        if (edge.low <= cuts[c] && cuts[c] <= edge.high) targets.push_back(edge.to);
      }
      if (targets.empty()) continue;
      const int32_t to = number_of(std::move(targets));
      if (!state.edges.empty() && state.edges.back().to == to &&
          state.edges.back().high + 1 == cuts[c]) {
        state.edges.back().high = cuts[c + 1] - 1;
      } else {
        state.edges.push_back({cuts[c], cuts[c + 1] - 1, to});
      }
    }
    dfa.states.push_back(std::move(state));
  }
  return dfa;
}

Dfa intersect(const Dfa& a, const Dfa& b) { return product(a, b, false); }

Dfa subtract(const Dfa& a, const Dfa& b) { return product(a, b, true); }

Dfa pruned(const Dfa& dfa) {
  std::vector<std::vector<int32_t>> before(dfa.states.size());
  std::vector<int32_t> todo;
  std::vector<bool> alive(dfa.states.size(), false);
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    for (const Dfa::Edge& edge : dfa.states[i].edges) {
      before[static_cast<size_t>(edge.to)].push_back(static_cast<int32_t>(i));
    }
    if (!dfa.states[i].final) continue;
    alive[i] = true;
    todo.push_back(static_cast<int32_t>(i));
  }
  while (!todo.empty()) {
    const auto state = static_cast<size_t>(todo.back());
    todo.pop_back();
    for (const int32_t from : before[state]) {
      if (alive[static_cast<size_t>(from)]) continue;
      alive[static_cast<size_t>(from)] = true;
      todo.push_back(from);
    }
  }
  Dfa result;
  if (alive.empty() || !alive[0]) return result;
  std::vector<int32_t> numbers(dfa.states.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < alive.size(); ++i) {
    if (alive[i]) numbers[i] = count++;
  }
  for (size_t i = 0; i < alive.size(); ++i) {
    if (!alive[i]) continue;
    Dfa::State state;
    state.final = dfa.states[i].final;
    for (Dfa::Edge edge : dfa.states[i].edges) {
      edge.to = numbers[static_cast<size_t>(edge.to)];
      if (edge.to >= 0) state.edges.push_back(edge);
    }
    result.states.push_back(std::move(state));
  }
  return result;
}

}  // namespace fathom::grammar
