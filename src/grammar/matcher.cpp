#include "grammar/matcher.h"

#include <algorithm>

namespace fathom::grammar {
namespace {

// Adds a place and what is reached from it by calls and returns.
void enter(const Grammar& grammar, Stacks& stacks, Place place, Places& places) {
  std::vector<Place> todo{place};
  std::vector<Place> seen{place};
  const auto add = [&](int32_t state, int32_t stack) {
    const Place next{state, stack};
    if (std::find(seen.begin(), seen.end(), next) != seen.end()) return;
    seen.push_back(next);
    todo.push_back(next);
  };
  while (!todo.empty()) {
    const Place at = todo.back();
    todo.pop_back();
    const Grammar::State& state = grammar.states[static_cast<size_t>(at.state)];
    if (!state.edges.empty() || !state.tokens.empty()) places.open.push_back(at);
    for (const Grammar::Call& call : state.calls) {
      // Where nothing follows the call, its end is the end of this rule too.
      const Grammar::State& after = grammar.states[static_cast<size_t>(call.to)];
      const bool last =
          after.final && after.edges.empty() && after.calls.empty() && after.tokens.empty();
      add(call.start, last ? at.stack : stacks.push(at.stack, call.to));
    }
    if (!state.final) continue;
    if (at.stack == Stacks::kBottom) {
      places.ended = true;
    } else {
      add(stacks.top(at.stack), stacks.below(at.stack));
    }
  }
}

void settle(Places& places) {
  std::sort(places.open.begin(), places.open.end());
  places.open.erase(std::unique(places.open.begin(), places.open.end()), places.open.end());
}

}  // namespace

int32_t Stacks::push(int32_t stack, int32_t state) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(stack)) << 32 | static_cast<uint32_t>(state);
  const auto [at, added] = numbers_.try_emplace(key, static_cast<int32_t>(nodes_.size()));
  if (added) nodes_.push_back({stack, state});
  return at->second;
}

Places begin_at(const Grammar& grammar, Stacks& stacks, int32_t state, int32_t stack) {
  Places places;
  enter(grammar, stacks, {state, stack}, places);
  settle(places);
  return places;
}

Places read_byte(const Grammar& grammar, Stacks& stacks, const Places& places, uint8_t byte) {
  Places next;
  for (const Place& place : places.open) {
    for (const Grammar::Edge& edge : grammar.states[static_cast<size_t>(place.state)].edges) {
      if (byte < edge.low) break;
      if (byte > edge.high) continue;
      enter(grammar, stacks, {edge.to, place.stack}, next);
      break;
    }
  }
  settle(next);
  return next;
}

Places read_token(const Grammar& grammar, Stacks& stacks, const Places& places, int32_t token) {
  Places next;
  for (const Place& place : places.open) {
    for (const auto& edge : grammar.states[static_cast<size_t>(place.state)].tokens) {
      if (edge.token == token) enter(grammar, stacks, {edge.to, place.stack}, next);
    }
  }
  settle(next);
  return next;
}

}  // namespace fathom::grammar
