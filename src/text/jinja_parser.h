// Expressions of a template; statements build on it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace fathom::jinja {

// A reader of tokens that knows Jinja's expressions and their precedence.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_op(std::string_view op) const {
    return current().kind == TokenKind::op && current().text == op;
  }
  bool is_name(std::string_view name) const {
    return current().kind == TokenKind::name && current().text == name;
  }
  bool take_op(std::string_view op);
  bool take_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect(TokenKind kind, std::string_view what);
  std::string expect_identifier(std::string_view what);
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_at(int line, const std::string& message) const;

  ExprPtr make(ExprKind kind, int line, std::string name = {}) const;
  // Adds a child (may be null) and refuses trees too deep to be walked.
  void adopt(Expr& parent, ExprPtr child) const;

  ExprPtr parse_expression();  // with "x if y else z"
  ExprPtr parse_or();
  // One expression, or a tuple of several; `conditional` as for parse_expression.
  ExprPtr parse_tuple(bool conditional);
  ExprPtr parse_target();               // of set and for
  ExprPtr parse_filters(ExprPtr node);  // | filter, is test, call, any number of them
  void parse_call(Expr& call);

 private:
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_name();
  ExprPtr parse_number();
  bool tuple_ends() const;
  std::string parse_dotted_name();
  template <typename Next>
  ExprPtr parse_left(std::initializer_list<std::string_view> operators, const Next& next);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace fathom::jinja
