// Following a grammar: where a text may be in it, byte by byte.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/grammar.h"

namespace fathom::grammar {

// Where a text may stand: a state, and where to go on when its rule ends.
struct Place {
  int32_t state;
  int32_t stack;  // of Stacks
  auto operator<=>(const Place&) const = default;
};

// Return states, linked; equal stacks have equal numbers.
class Stacks {
 public:
  static constexpr int32_t kBottom = -1;

  int32_t push(int32_t stack, int32_t state);
  int32_t top(int32_t stack) const { return nodes_[static_cast<size_t>(stack)].state; }
  int32_t below(int32_t stack) const { return nodes_[static_cast<size_t>(stack)].below; }

 private:
  struct Node {
    int32_t below;
    int32_t state;
  };
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> numbers_;
};

// All places where a text may stand.
struct Places {
  std::vector<Place> open;  // ascending; of them something can be read
  bool ended = false;       // the bottom was reached

  bool dead() const { return open.empty() && !ended; }
};

Places begin_at(const Grammar& grammar, Stacks& stacks, int32_t state, int32_t stack);
Places read_byte(const Grammar& grammar, Stacks& stacks, const Places& places, uint8_t byte);
Places read_token(const Grammar& grammar, Stacks& stacks, const Places& places, int32_t token);

}  // namespace fathom::grammar
