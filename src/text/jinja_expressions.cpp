#include <algorithm>
#include <charconv>

#include "text/jinja_parser.h"

namespace fathom::jinja {
namespace {

// Expressions are parsed and evaluated by recursion; no template that is written by hand comes
// near.
constexpr int kDepth = 200;
constexpr int kNesting = 100;

// Guards the recursion of the parser itself (brackets in brackets).
class Nested {
 public:
  explicit Nested(int& depth) : depth_(++depth) {}
  ~Nested() { --depth_; }

 private:
  int& depth_;
};

bool is_keyword(std::string_view name) {
  for (std::string_view word : {"and", "or", "not", "if", "else", "in", "is"}) {
    if (name == word) return true;
  }
  return false;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::variable_end:
      return "'}}'";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::string:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

bool ExpressionParser::take_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}
bool ExpressionParser::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}
void ExpressionParser::expect_op(std::string_view op) {
  if (!take_op(op)) fail(fmt::format("expected '{}', found {}", op, describe(current())));
}
void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) fail(fmt::format("expected {}, found {}", what, describe(current())));
  take();
}
std::string ExpressionParser::expect_identifier(std::string_view what) {
  if (current().kind != TokenKind::name || is_keyword(current().text)) {
    fail(fmt::format("expected {}, found {}", what, describe(current())));
  }
  return take().text;
}
void ExpressionParser::fail(const std::string& message) const { fail_at(current().line, message); }
void ExpressionParser::fail_at(int line, const std::string& message) const {
  throw SourceError{line, message};
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, std::string name) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

void ExpressionParser::adopt(Expr& parent, ExprPtr child) const {
  if (child != nullptr) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kDepth) fail_at(parent.line, "the expression is nested too deeply");
  }
  parent.children.push_back(std::move(child));
}

ExprPtr ExpressionParser::parse_expression() {
  const Nested nested(nesting_);
  if (nesting_ > kNesting) fail("the expression is nested too deeply");
  ExprPtr node = parse_or();
  while (is_name("if")) {
    ExprPtr whole = make(ExprKind::conditional, take().line);
    adopt(*whole, std::move(node));
    adopt(*whole, parse_or());
    adopt(*whole, take_name("else") ? parse_expression() : nullptr);
    node = std::move(whole);
  }
  return node;
}

template <typename Next>
ExprPtr ExpressionParser::parse_left(std::initializer_list<std::string_view> operators,
                                     const Next& next) {
  ExprPtr node = next();
  for (;;) {
    const bool follows = std::any_of(operators.begin(), operators.end(),
                                     [this](std::string_view op) { return is_op(op); });
    if (!follows) return node;
    const Token op = take();
    ExprPtr whole = make(ExprKind::binary, op.line, op.text);
    adopt(*whole, std::move(node));
    adopt(*whole, next());
    node = std::move(whole);
  }
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr node = parse_and();
  while (is_name("or")) {
    ExprPtr whole = make(ExprKind::logic_or, take().line);
    adopt(*whole, std::move(node));
    adopt(*whole, parse_and());
    node = std::move(whole);
  }
  return node;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr node = parse_not();
  while (is_name("and")) {
    ExprPtr whole = make(ExprKind::logic_and, take().line);
    adopt(*whole, std::move(node));
    adopt(*whole, parse_not());
    node = std::move(whole);
  }
  return node;
}

ExprPtr ExpressionParser::parse_not() {
  const Nested nested(nesting_);
  if (nesting_ > kNesting) fail("the expression is nested too deeply");
  if (!is_name("not")) return parse_compare();
  ExprPtr node = make(ExprKind::unary, take().line, "not");
  adopt(*node, parse_not());
  return node;
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr whole;
  for (;;) {
    std::string op;
    const int line = current().line;
    if (current().kind == TokenKind::op) {
      for (std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (is_op(known)) op = known;
      }
    } else if (is_name("in")) {
      op = "in";
    } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      take();
      op = "not in";
    }
    if (op.empty()) return whole == nullptr ? std::move(first) : std::move(whole);
    take();
    if (whole == nullptr) {
      whole = make(ExprKind::compare, line);
      adopt(*whole, std::move(first));
    }
    whole->operators.push_back(op);
    adopt(*whole, parse_sum());
  }
}

ExprPtr ExpressionParser::parse_sum() {
  return parse_left({"+", "-"}, [this] { return parse_concat(); });
}
ExprPtr ExpressionParser::parse_concat() {
  return parse_left({"~"}, [this] { return parse_product(); });
}
ExprPtr ExpressionParser::parse_product() {
  return parse_left({"*", "/", "//", "%"}, [this] { return parse_power(); });
}
ExprPtr ExpressionParser::parse_power() {
  return parse_left({"**"}, [this] { return parse_unary(true); });
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nested nested(nesting_);
  if (nesting_ > kNesting) fail("the expression is nested too deeply");
  ExprPtr node;
  if (is_op("-") || is_op("+")) {
    const Token sign = take();
    node = make(ExprKind::unary, sign.line, sign.text);
    adopt(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = current();
  const int line = token.line;
  if (token.kind == TokenKind::name) return parse_name();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::floating) return parse_number();
  if (token.kind == TokenKind::string) {
    std::string text;
    while (current().kind == TokenKind::string) text += take().text;
    ExprPtr node = make(ExprKind::literal, line);
    node->value = Value(TextPtr(std::make_shared<const Text>(text, true)));
    return node;
  }
  if (take_op("(")) {
    if (take_op(")")) return make(ExprKind::tuple, line);
    ExprPtr node = parse_tuple(true);
    expect_op(")");
    return node;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  fail("expected an expression, found " + describe(token));
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = current();
  if (is_keyword(token.text)) fail("expected an expression, found " + describe(token));
  take();
  const bool yes = token.text == "true" || token.text == "True";
  const bool no = token.text == "false" || token.text == "False";
  const bool none = token.text == "none" || token.text == "None";
  if (!yes && !no && !none) return make(ExprKind::name, token.line, token.text);
  ExprPtr node = make(ExprKind::literal, token.line);
  node->value = none ? Value(None{}) : Value(yes);
  return node;
}

ExprPtr ExpressionParser::parse_number() {
  const Token token = take();
  ExprPtr node = make(ExprKind::literal, token.line);
  std::string_view digits = token.text;
  if (token.kind == TokenKind::floating) {
    double value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    node->value = Value(value);
    return node;
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    base = digits[1] == 'x' || digits[1] == 'X' ? 16 : digits[1] == 'o' || digits[1] == 'O' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    fail_at(token.line, fmt::format("{} is not a whole number of 64 bits", token.text));
  }
  node->value = Value(value);
  return node;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::list, take().line);
  while (!take_op("]")) {
    if (!node->children.empty()) {
      expect_op(",");
      if (take_op("]")) break;
    }
    adopt(*node, parse_expression());
  }
  return node;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::dict, take().line);
  while (!take_op("}")) {
    if (!node->children.empty()) {
      expect_op(",");
      if (take_op("}")) break;
    }
    adopt(*node, parse_expression());
    expect_op(":");
    adopt(*node, parse_expression());
  }
  return node;
}

bool ExpressionParser::tuple_ends() const {
  return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
         is_op(")") || is_op("=") || is_name("recursive") || is_name("in");
}

ExprPtr ExpressionParser::parse_tuple(bool conditional) {
  const int line = current().line;
  const auto one = [&] { return conditional ? parse_expression() : parse_or(); };
  ExprPtr first = one();
  if (!is_op(",")) return first;
  ExprPtr tuple = make(ExprKind::tuple, line);
  adopt(*tuple, std::move(first));
  while (take_op(",")) {
    if (tuple_ends()) break;
    adopt(*tuple, one());
  }
  return tuple;
}

ExprPtr ExpressionParser::parse_target() {
  const int line = current().line;
  const auto one = [&]() -> ExprPtr {
    if (take_op("(")) {
      ExprPtr inner = parse_target();
      expect_op(")");
      return inner;
    }
    const int name_line = current().line;
    ExprPtr name = make(ExprKind::name, name_line, expect_identifier("a name to assign to"));
    if (!take_op(".")) return name;
    ExprPtr attribute =
        make(ExprKind::attribute, name_line, expect_identifier("an attribute to assign to"));
    adopt(*attribute, std::move(name));
    return attribute;
  };
  const Nested nested(nesting_);
  if (nesting_ > kNesting) fail("the expression is nested too deeply");
  ExprPtr first = one();
  if (!is_op(",")) return first;
  ExprPtr tuple = make(ExprKind::tuple, line);
  adopt(*tuple, std::move(first));
  while (take_op(",")) {
    if (tuple_ends()) break;
    adopt(*tuple, one());
  }
  return tuple;
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (is_op("(")) {
      ExprPtr call = make(ExprKind::call, current().line);
      adopt(*call, std::move(node));
      parse_call(*call);
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr node) {
  const Token opener = take();
  if (opener.text == ".") {
    if (current().kind == TokenKind::integer) {
      ExprPtr item = make(ExprKind::item, opener.line);
      adopt(*item, std::move(node));
      adopt(*item, parse_number());
      return item;
    }
    if (current().kind != TokenKind::name) fail("expected a name after '.'");
    ExprPtr attribute = make(ExprKind::attribute, opener.line, take().text);
    adopt(*attribute, std::move(node));
    return attribute;
  }
  ExprPtr index = is_op(":") ? nullptr : parse_tuple(true);
  if (!is_op(":")) {
    expect_op("]");
    ExprPtr item = make(ExprKind::item, opener.line);
    adopt(*item, std::move(node));
    adopt(*item, std::move(index));
    return item;
  }
  ExprPtr slice = make(ExprKind::slice, opener.line);
  adopt(*slice, std::move(node));
  adopt(*slice, std::move(index));
  for (int part = 0; part < 2; ++part) {
    const bool given = take_op(":") && !is_op(":") && !is_op("]");
    adopt(*slice, given ? parse_expression() : nullptr);
  }
  expect_op("]");
  return slice;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr node) {
  for (;;) {
    if (is_op("|")) {
      node = parse_filter(std::move(node));
    } else if (is_name("is")) {
      node = parse_test(std::move(node));
    } else if (is_op("(")) {
      node = parse_postfix(std::move(node));
    } else {
      return node;
    }
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_identifier("a name");
  while (take_op(".")) name += "." + expect_identifier("a name");
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr node) {
  const int line = take().line;
  ExprPtr filter = make(ExprKind::filter, line, parse_dotted_name());
  adopt(*filter, std::move(node));
  if (is_op("(")) parse_call(*filter);
  return filter;
}

ExprPtr ExpressionParser::parse_test(ExprPtr node) {
  const int line = take().line;
  const bool negated = take_name("not");
  // "in" is a test too, though a keyword elsewhere.
  const std::string name = take_name("in") ? "in" : parse_dotted_name();
  ExprPtr test = make(ExprKind::test, line, name);
  adopt(*test, std::move(node));
  const Token& next = current();
  const bool operand =
      next.kind == TokenKind::string || next.kind == TokenKind::integer ||
      next.kind == TokenKind::floating || is_op("[") || is_op("{") ||
      (next.kind == TokenKind::name && !is_keyword(next.text) && next.text != "recursive");
  if (is_op("(")) {
    parse_call(*test);
  } else if (operand) {
    adopt(*test, parse_postfix(parse_primary()));
  }
  if (!negated) return test;
  ExprPtr whole = make(ExprKind::unary, line, "not");
  adopt(*whole, std::move(test));
  return whole;
}

void ExpressionParser::parse_call(Expr& call) {
  expect_op("(");
  bool first = true;
  while (!take_op(")")) {
    if (!first) {
      expect_op(",");
      if (take_op(")")) break;
    }
    first = false;
    Expr holder;  // for its depth check
    holder.line = call.line;
    if (take_op("**")) {
      adopt(holder, parse_expression());
      call.spread_named = std::move(holder.children.front());
    } else if (take_op("*")) {
      adopt(holder, parse_expression());
      call.spread = std::move(holder.children.front());
    } else if (current().kind == TokenKind::name && ahead().kind == TokenKind::op &&
               ahead().text == "=") {
      std::string name = take().text;
      take();
      adopt(holder, parse_expression());
      call.named.emplace_back(std::move(name), std::move(holder.children.front()));
    } else {
      if (!call.named.empty()) fail("a positional argument follows a named one");
      adopt(call, parse_expression());
      continue;
    }
    call.depth = std::max(call.depth, holder.depth);
  }
}

}  // namespace fathom::jinja
