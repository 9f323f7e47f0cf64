// Runs a parsed template.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_value.h"

namespace fathom::jinja {

class Interpreter {
 public:
  Interpreter(Heap& heap, Scope* globals) : heap_(heap), scope_(globals) {}

  Text run(const Body& body);
  int line() const { return line_; }  // where the last thing was done, for errors
  Heap& heap() { return heap_; }

  Value call(const Value& callee, Arguments& arguments);
  Value apply_filter(std::string_view name, const Value& value, Arguments& arguments);
  bool apply_test(std::string_view name, const Value& value, Arguments& arguments);
  // value.name and value[key]: undefined where there is none.
  Value attribute(const Value& value, std::string_view name);
  Value item(const Value& value, const Value& key);
  // What a loop over it sees.
  std::vector<Value> items_of(const Value& iterable);
  bool contains(const Value& container, const Value& wanted);
  Value binary(std::string_view op, const Value& a, const Value& b);

 private:
  enum class Flow { normal, stop, next };
  class Deeper;

  Flow run_body(const Body& body);
  Flow run(const Stmt& stmt);
  Flow run_loop(const Stmt& stmt);
  Flow run_scope(const Stmt& stmt);
  void run_macro_definition(const Stmt& stmt);
  void run_call_block(const Stmt& stmt);
  Value make_macro(const Stmt& stmt, std::string name);
  Value run_macro(const Stmt& stmt, Scope* closure, Arguments& arguments, std::string_view name);
  void assign(const Expr& target, Value value);
  // The text that `body` writes, in a scope of its own.
  Text capture(const Body& body);
  void write(const Text& text);

  Value eval(const Expr& expr);
  Value eval_name(const std::string& name);
  Value eval_call(const Expr& expr, const Value* caller);
  Value eval_filter(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_unary(const Expr& expr);
  Value eval_dict(const Expr& expr);
  // An operand of a filter chain that begins with a block's text.
  Value eval_chain(const Expr& expr, const Value& text);
  Arguments eval_arguments(const Expr& expr);

  Heap& heap_;
  Scope* scope_;
  Text* out_ = nullptr;
  const Value* block_text_ = nullptr;  // of the filter or set block being evaluated
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace fathom::jinja
