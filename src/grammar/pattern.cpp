#include "grammar/pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/json_text.h"

namespace fathom::grammar {
namespace {

constexpr uint32_t kLast = 0x10FFFF;
constexpr int64_t kMostRepeats = 1000;
constexpr int kDeepest = 100;

struct Range {
  uint32_t low;
  uint32_t high;
};
using Ranges = std::vector<Range>;

Ranges complement(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.low < b.low; });
  Ranges result;
  uint32_t from = 0;
  for (const Range& range : ranges) {
    if (range.low > from) result.push_back({from, range.low - 1});
    from = std::max(from, range.high + 1);
  }
  if (from <= kLast) result.push_back({from, kLast});
  return result;
}

struct Node {
  enum class Kind { set, sequence, either, repeat, begin, end };
  Kind kind = Kind::sequence;
  Ranges set;
  std::vector<Node> parts;
  int64_t least = 0;
  int64_t most = 0;
};

class Parser {
 public:
  Parser(std::string_view source, const std::string& path) : source_(source), path_(path) {}

  Node parse() {
    Node node = alternatives(0);
    if (!done()) fail("unexpected ')'");
    return node;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    fail_usage("{}: {} at offset {} of '{}'", path_, what, at_, source_);
  }
  bool done() const { return at_ == source_.size(); }
  char peek() const { return done() ? '\0' : source_[at_]; }
  bool take(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  Node alternatives(int depth) {
    if (depth > kDeepest) fail("groups are nested too deeply");
    Node either{Node::Kind::either, {}, {}, 0, 0};
    do {
      Node sequence;
      while (!done() && peek() != '|' && peek() != ')') sequence.parts.push_back(term(depth));
      either.parts.push_back(std::move(sequence));
    } while (take("|"));
    return either.parts.size() == 1 ? std::move(either.parts[0]) : either;
  }

  Node term(int depth) {
    if (take("^")) return {Node::Kind::begin, {}, {}, 0, 0};
    if (take("$")) return {Node::Kind::end, {}, {}, 0, 0};
    Node node = atom(depth);
    int64_t least = 0;
    int64_t most = 0;
    while (quantifier(&least, &most)) {
      Node repeat{Node::Kind::repeat, {}, {}, least, most};
      repeat.parts.push_back(std::move(node));
      node = std::move(repeat);
    }
    return node;
  }

  bool quantifier(int64_t* least, int64_t* most) {
    if (take("*")) {
      *least = 0, *most = kUnlimited;
    } else if (take("+")) {
      *least = 1, *most = kUnlimited;
    } else if (take("?")) {
      *least = 0, *most = 1;
    } else if (take("{")) {
      *least = number();
      *most = *least;
      if (take(",")) *most = peek() == '}' ? kUnlimited : number();
      if (!take("}")) fail("'}' is missing");
      if (*most != kUnlimited && *most < *least) fail("a count that ends before it begins");
    } else {
      return false;
    }
    take("?");  // lazy: the same texts match
    return true;
  }

  int64_t number() {
    int64_t value = 0;
    if (peek() < '0' || peek() > '9') fail("a number is missing");
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (source_[at_++] - '0');
      if (value > kMostRepeats) fail("a count above 1000");
    }
    return value;
  }

  Node atom(int depth) {
    if (take("(?:") || (!source_.substr(at_).starts_with("(?") && take("(")) || named_group()) {
      Node group = alternatives(depth + 1);
      if (!take(")")) fail("')' is missing");
      return group;
    }
    if (source_.substr(at_).starts_with("(?")) fail("what looks around cannot be enforced");
    if (take("[")) return set(bracket());
    if (take(".")) return set(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (take("\\")) return set(escape(false));
    if (std::string_view("*+?{").find(peek()) != std::string_view::npos) fail("nothing to repeat");
    const uint32_t c = character();
    return set({{c, c}});
  }

  bool named_group() {
    const std::string_view rest = source_.substr(at_);
    if (!rest.starts_with("(?<") || rest.starts_with("(?<=") || rest.starts_with("(?<!")) {
      return false;
    }
    const size_t end = source_.find('>', at_);
    if (end == source_.npos) fail("'>' is missing");
    at_ = end + 1;
    return true;
  }

  static Node set(Ranges ranges) { return {Node::Kind::set, std::move(ranges), {}, 0, 0}; }

  // Patterns are valid UTF-8, as all of the schema is.
  uint32_t character() {
    const auto lead = static_cast<uint8_t>(source_[at_++]);
    if (lead < 0x80) return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t c = lead & (0x3F >> more);
    for (int i = 0; i < more && !done(); ++i) {
      c = c << 6 | (static_cast<uint8_t>(source_[at_++]) & 0x3F);
    }
    return c;
  }

  uint32_t hexadecimal(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = peek();
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!letter && (c < '0' || c > '9')) fail("a hexadecimal digit is missing");
      value = value * 16 + static_cast<uint32_t>(letter ? (c | 0x20) - 'a' + 10 : c - '0');
      ++at_;
    }
    return value;
  }

  uint32_t code_point() {
    if (!take("{")) return hexadecimal(4);
    uint32_t value = 0;
    while (!done() && peek() != '}' && value <= kLast) value = value * 16 + hexadecimal(1);
    if (!take("}") || value > kLast) fail("no code point");
    return value;
  }

  // What follows a backslash.
  Ranges escape(bool in_bracket) {
    const Ranges digits{{'0', '9'}};
    const Ranges words{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    // What every dialect takes for a blank, and what one of them does.
    const Ranges blanks{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},
                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    Ranges perhaps_blanks = blanks;
    perhaps_blanks.insert(perhaps_blanks.end(), {{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}});
    if (done()) fail("a lone backslash");
    const char c = source_[at_];
    const auto one = [](uint32_t code) { return Ranges{{code, code}}; };
    if (static_cast<uint8_t>(c) >= 0x80) return one(character());
    ++at_;
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return complement(digits);
      case 'w':
        return words;
      case 'W':
        return complement(words);
      case 's':
        return blanks;
      case 'S':
        return complement(perhaps_blanks);
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x':
        return one(hexadecimal(2));
      case 'u':
        return one(code_point());
      case 'b':
        if (in_bracket) return one('\b');
        break;
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
    if (letter) fail("an escape that cannot be enforced ends");
    return one(static_cast<uint8_t>(c));
  }

  Ranges bracket() {
    const bool negated = take("^");
    Ranges all;
    while (!take("]")) {
      if (done()) fail("']' is missing");
      Ranges first = bracket_item();
      const bool range = first.size() == 1 && first[0].low == first[0].high && peek() == '-' &&
                         at_ + 1 < source_.size() && source_[at_ + 1] != ']';
      if (range) {
        ++at_;
        const Ranges last = bracket_item();
        if (last.size() != 1 || last[0].low != last[0].high || last[0].low < first[0].low) {
          fail("a range that ends before it begins");
        }
        first[0].high = last[0].low;
      }
      all.insert(all.end(), first.begin(), first.end());
    }
    return negated ? complement(all) : all;
  }

  Ranges bracket_item() {
    if (take("\\")) return escape(true);
    const uint32_t c = character();
    return {{c, c}};
  }

  std::string_view source_;
  const std::string& path_;
  size_t at_ = 0;
};

class Builder {
 public:
  explicit Builder(const std::string& path) : path_(path) {}

  Dfa build(const Node& whole) {
    const Nfa::Fragment inside = edge(whole, true, true);
    return nfa_.determinise(nfa_.sequence({nfa_.symbol('"'), inside, nfa_.symbol('"')}));
  }

 private:
  Nfa::Fragment anything() {
    return nfa_.repeat([this] { return string_characters(nfa_, 0, kLast); }, 0, kUnlimited);
  }

  // A pattern matches anywhere: what stands at its edges has anything before or after it, unless it
  // is ^ or $.
  Nfa::Fragment edge(const Node& node, bool left, bool right) {
    if (!left && !right) return fragment(node);
    std::vector<Nfa::Fragment> parts;
    switch (node.kind) {
      case Node::Kind::either:
        for (const Node& part : node.parts) parts.push_back(edge(part, left, right));
        return nfa_.either(parts);
      case Node::Kind::sequence:
        if (node.parts.empty()) return anything();
        for (size_t i = 0; i < node.parts.size(); ++i) {
          const bool last = i + 1 == node.parts.size();
          parts.push_back(edge(node.parts[i], left && i == 0, right && last));
        }
        return nfa_.sequence(parts);
      case Node::Kind::begin:
        if (!left) return fragment(node);
        return right ? anything() : nfa_.empty();
      case Node::Kind::end:
        if (!right) return fragment(node);
        return left ? anything() : nfa_.empty();
      case Node::Kind::set:
      case Node::Kind::repeat:
        break;
    }
    if (left) parts.push_back(anything());
    parts.push_back(fragment(node));
    if (right) parts.push_back(anything());
    return nfa_.sequence(parts);
  }

  Nfa::Fragment fragment(const Node& node) {
    std::vector<Nfa::Fragment> parts;
    switch (node.kind) {
      case Node::Kind::set:
        for (const Range& range : node.set) {
          parts.push_back(string_characters(nfa_, range.low, range.high));
        }
        return nfa_.either(parts);
      case Node::Kind::repeat:
        return nfa_.repeat([&] { return fragment(node.parts[0]); }, node.least, node.most);
      case Node::Kind::sequence:
        for (const Node& part : node.parts) parts.push_back(fragment(part));
        return nfa_.sequence(parts);
      case Node::Kind::either:
        for (const Node& part : node.parts) parts.push_back(fragment(part));
        return nfa_.either(parts);
      case Node::Kind::begin:
      case Node::Kind::end:
        break;
    }
    fail_usage("{}: '^' and '$' are enforced at the ends of alternatives only", path_);
  }

  const std::string& path_;
  Nfa nfa_;
};

}  // namespace

Dfa pattern_string(std::string_view source, const std::string& path) {
  return pruned(Builder(path).build(Parser(source, path).parse()));
}

}  // namespace fathom::grammar
