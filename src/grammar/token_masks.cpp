#include "grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

namespace fathom::grammar {
namespace {

constexpr size_t kMostFew = 1024;
constexpr size_t kMostBytes = size_t{64} << 20;  // of entries; more than that begins anew

// Sets of places by number, and where each byte leads: a deterministic automaton made as it is
// walked.
class LazyAutomaton {
 public:
  static constexpr int32_t kNone = -1;

  explicit LazyAutomaton(const Grammar& grammar) : grammar_(grammar) {}

  int32_t start(int32_t state) {
    return number_of(begin_at(grammar_, stacks_, state, Stacks::kBottom));
  }
  const Places& places(int32_t set) const { return *sets_[static_cast<size_t>(set)].places; }
  int32_t next(int32_t set, uint8_t byte) {
    const int32_t known = (*sets_[static_cast<size_t>(set)].next)[byte];
    if (known != kUnknown) return known;
    Places after = read_byte(grammar_, stacks_, places(set), byte);
    const int32_t number = after.dead() ? kNone : number_of(std::move(after));
    (*sets_[static_cast<size_t>(set)].next)[byte] = number;
    return number;
  }

 private:
  static constexpr int32_t kUnknown = -2;
  struct Set {
    const Places* places;
    std::unique_ptr<std::array<int32_t, 256>> next;
  };

  int32_t number_of(Places places) {
    std::pair<std::vector<Place>, bool> key{places.open, places.ended};
    const auto [at, added] = numbers_.try_emplace(std::move(key), Numbered{});
    if (added) {
      at->second = {static_cast<int32_t>(sets_.size()), std::move(places)};
      sets_.push_back({&at->second.places, std::make_unique<std::array<int32_t, 256>>()});
      sets_.back().next->fill(kUnknown);
    }
    return at->second.number;
  }

  struct Numbered {
    int32_t number = 0;
    Places places;
  };
  const Grammar& grammar_;
  Stacks stacks_;
  std::map<std::pair<std::vector<Place>, bool>, Numbered> numbers_;
  std::vector<Set> sets_;
};

}  // namespace

TokenMasks::Entry TokenMasks::walk(int32_t state, int32_t node) {
  ++walks_;
  Entry entry;
  LazyAutomaton automaton(grammar_);
  const auto nodes = trie_.nodes();
  const int32_t plain = grammar_.states[static_cast<size_t>(state)].plain;
  const bool at_root = node == kRoot;
  const int32_t above = at_root ? 0 : nodes[static_cast<size_t>(node)].depth;
  const int32_t begin = at_root ? (plain > 0 ? trie_.plain_end() : 0) : node + 1;
  const int32_t end =
      at_root ? static_cast<int32_t>(nodes.size()) : nodes[static_cast<size_t>(node)].end;
  std::vector<int32_t> path{automaton.start(state)};  // the set after so many bytes
  if (!at_root && automaton.places(path[0]).ended) entry.ends.push_back(node);
  for (int32_t i = begin; i < end;) {
    const TokenTrie::Node& at = nodes[static_cast<size_t>(i)];
    const auto depth = static_cast<size_t>(at.depth - above);
    const int32_t set = automaton.next(path[depth - 1], at.byte);
    if (set == LazyAutomaton::kNone) {
      i = at.end;
      continue;
    }
    path.resize(depth);
    path.push_back(set);
    const auto tokens = trie_.tokens_of(static_cast<size_t>(i));
    entry.few.insert(entry.few.end(), tokens.begin(), tokens.end());
    const Places& places = automaton.places(set);
    if (places.ended && at.end > i + 1) entry.ends.push_back(i);
    i = places.open.empty() ? at.end : i + 1;
  }
  if (entry.few.size() <= kMostFew && !(at_root && plain > 0)) return entry;
  entry.many = TokenSet(trie_.tokens());
  if (at_root) entry.many.add(trie_.plain(plain));
  for (const int32_t token : std::exchange(entry.few, {})) entry.many.add(token);
  return entry;
}

const TokenMasks::Entry& TokenMasks::entry(int32_t state, int32_t node) {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32 | static_cast<uint32_t>(node);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  Entry made = walk(state, node);
  bytes_ += sizeof(Entry) + made.many.words().size() * sizeof(uint64_t) +
            (made.few.size() + made.ends.size()) * sizeof(int32_t);
  return entries_.emplace(key, std::move(made)).first->second;
}

void TokenMasks::add_allowed(const Places& places, const Stacks& stacks, TokenSet* allowed) {
  if (bytes_ > kMostBytes) {
    entries_.clear();
    bytes_ = 0;
  }
  struct Task {
    int32_t state, stack, node;
    auto operator<=>(const Task&) const = default;
  };
  std::vector<Task> tasks;
  for (const Place& place : places.open) tasks.push_back({place.state, place.stack, kRoot});
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task task = tasks[i];
    const Entry& found = entry(task.state, task.node);
    if (!found.many.words().empty()) allowed->add(found.many);
    for (const int32_t token : found.few) allowed->add(token);
    if (task.stack == Stacks::kBottom) continue;
    for (const int32_t node : found.ends) {
      const Task next{stacks.top(task.stack), stacks.below(task.stack), node};
      if (std::find(tasks.begin(), tasks.end(), next) == tasks.end()) tasks.push_back(next);
    }
  }
}

}  // namespace fathom::grammar
