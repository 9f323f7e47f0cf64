// Numbers within bounds: while the digits come, the automaton knows how they compare with a bound.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "grammar/json_text.h"

namespace fathom::grammar {
namespace {

constexpr int kMostDigits = 15;

// Builds an automaton from a function: keys stand for states.
template <typename Key, typename Next, typename Final>
Dfa explore(const Key& first, const Next& next, const Final& is_final) {
  Dfa dfa;
  std::map<Key, int32_t> numbers{{first, 0}};
  std::vector<Key> keys{first};
  for (size_t i = 0; i < keys.size(); ++i) {
    Dfa::State state;
    const Key key = keys[i];
    state.final = is_final(key);
    for (const char byte : std::string_view("+-.0123456789Ee")) {
      Key to = key;
      if (!next(&to, byte)) continue;
      const auto [at, added] = numbers.try_emplace(to, static_cast<int32_t>(keys.size()));
      if (added) keys.push_back(to);
      const auto symbol = static_cast<uint8_t>(byte);
      state.edges.push_back({symbol, symbol, at->second});
    }
    dfa.states.push_back(std::move(state));
  }
  return pruned(dfa);
}

enum class Part { begin, minus, zero, whole, point, fraction, exponent, exponent_sign, power };

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// The grammar of a number without exponent.
bool advance(Part* part, char byte, bool integer) {
  switch (*part) {
    case Part::begin:
      if (byte == '-') {
        *part = Part::minus;
        return true;
      }
      [[fallthrough]];
    case Part::minus:
      // Of whole numbers 0 has one spelling.
      if (!is_digit(byte) || (integer && byte == '0' && *part == Part::minus)) return false;
      *part = byte == '0' ? Part::zero : Part::whole;
      return true;
    case Part::whole:
      if (is_digit(byte)) return true;
      [[fallthrough]];
    case Part::zero:
      if (byte != '.' || integer) return false;
      *part = Part::point;
      return true;
    case Part::point:
    case Part::fraction:
      *part = Part::fraction;
      return is_digit(byte);
    default:
      return false;
  }
}

bool ends(Part part) { return part == Part::zero || part == Part::whole || part == Part::fraction; }

Dfa any_number(bool integer, int digits) {
  using Key = std::tuple<Part, int>;  // and digits so far
  const auto next = [&](Key* key, char byte) {
    auto& [part, count] = *key;
    if (!integer && ends(part) && (byte == 'e' || byte == 'E')) {
      *key = {Part::exponent, 0};
      return true;
    }
    if (part == Part::exponent && (byte == '+' || byte == '-')) {
      part = Part::exponent_sign;
      return true;
    }
    if (part >= Part::exponent) {
      part = Part::power;
      return is_digit(byte) && ++count <= 2;
    }
    // A point needs a digit after it.
    if (byte == '.' && count == digits) return false;
    return advance(&part, byte, integer) && (!is_digit(byte) || ++count <= digits);
  };
  return explore(Key{Part::begin, 0}, next, [](const Key& key) {
    return ends(std::get<0>(key)) || std::get<0>(key) == Part::power;
  });
}

// A bound taken apart: digits before the point without leading zeros ("" for 0), and after it.
struct Decimal {
  bool negative = false;
  std::string whole;
  std::string fraction;
  bool zero() const { return whole.empty() && fraction.empty(); }

  explicit Decimal(std::string_view text) {
    negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    const size_t point = std::min(text.find('.'), text.size());
    whole = text.substr(0, point);
    whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
    if (point < text.size()) fraction = text.substr(point + 1);
    fraction.resize(fraction.find_last_not_of('0') + 1);
  }
};

// How the number's digits so far compare with the bound's, both without sign.
struct Progress {
  Part part = Part::begin;
  bool negative = false;
  bool zero = true;  // all digits so far
  int whole = 0;     // digits before the point, 0 for "0"
  int fraction = 0;
  int order = 0;  // of the digits at places that both have
  auto operator<=>(const Progress&) const = default;
};

bool take(Progress* p, char byte, const Decimal& bound, bool integer, int digits) {
  if (byte == '.' && p->whole >= digits) return false;
  if (p->part == Part::begin && byte == '-') p->negative = true;
  if (!advance(&p->part, byte, integer)) return false;
  if (!is_digit(byte)) return true;
  if (byte != '0') p->zero = false;
  const std::string& places = p->part == Part::fraction ? bound.fraction : bound.whole;
  int& at = p->part == Part::fraction ? p->fraction : p->whole;
  if (p->part != Part::fraction && p->part == Part::zero) return true;
  const char other = at < std::ssize(places) ? places[static_cast<size_t>(at)] : '0';
  // With another number of digits before the point, those after it do not count.
  const bool comparable = p->part != Part::fraction || p->whole == std::ssize(bound.whole);
  if (p->order == 0 && comparable) p->order = (byte > other) - (byte < other);
  ++at;
  return std::max(1, p->whole) + p->fraction <= digits;
}

int compare(const Progress& p, const Decimal& bound) {
  const int sign = p.zero ? 0 : p.negative ? -1 : 1;
  const int other = bound.zero() ? 0 : bound.negative ? -1 : 1;
  if (sign != other) return sign < other ? -1 : 1;
  if (sign == 0) return 0;
  int order = 0;
  if (p.whole != std::ssize(bound.whole)) {
    order = p.whole < std::ssize(bound.whole) ? -1 : 1;
  } else if (p.order != 0) {
    order = p.order;
  } else if (p.fraction < std::ssize(bound.fraction)) {
    order = -1;  // it has digits that are not 0 there
  }
  return order * sign;
}

Dfa bounded(std::string_view text, bool below, bool excluded, bool integer, int digits) {
  const Decimal bound(text);
  const auto next = [&](Progress* p, char byte) { return take(p, byte, bound, integer, digits); };
  return explore(Progress{}, next, [&](const Progress& p) {
    if (!ends(p.part)) return false;
    const int order = compare(p, bound);
    return (order == 0 && !excluded) || (below ? order < 0 : order > 0);
  });
}

Dfa multiples(int64_t of, int digits) {
  struct Key {
    Part part = Part::begin;
    int count = 0;
    int64_t rest = 0;
    auto operator<=>(const Key&) const = default;
  };
  const auto next = [&](Key* key, char byte) {
    if (!advance(&key->part, byte, true)) return false;
    if (!is_digit(byte)) return true;
    key->rest = (key->rest * 10 + (byte - '0')) % of;
    return ++key->count <= digits;
  };
  return explore(Key{}, next, [](const Key& key) { return ends(key.part) && key.rest == 0; });
}

}  // namespace

Dfa numbers(const NumberBounds& bounds) {
  int digits = kMostDigits;
  for (const auto& bound : {bounds.minimum, bounds.maximum}) {
    if (bound) digits = std::max(digits, static_cast<int>(Decimal(*bound).whole.size()));
  }
  if (!bounds.any()) return any_number(bounds.integer, digits);
  std::optional<Dfa> all;
  const auto add = [&all](Dfa dfa) { all = all ? intersect(*all, dfa) : std::move(dfa); };
  if (bounds.minimum) {
    add(bounded(*bounds.minimum, false, bounds.minimum_excluded, bounds.integer, digits));
  }
  if (bounds.maximum) {
    add(bounded(*bounds.maximum, true, bounds.maximum_excluded, bounds.integer, digits));
  }
  if (bounds.multiple_of > 0) add(multiples(bounds.multiple_of, digits));
  return *all;
}

}  // namespace fathom::grammar
