#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

// Evaluation recurses; the deepest chains allowed still fit a thread's stack many times over.
constexpr int kDepth = 800;

// `loop` inside a for block.
class Loop : public Object {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {}

  const std::vector<Value>& items() const { return items_; }
  void move_to(size_t index) { index_ = index; }
  std::string_view type_name() const override { return "LoopContext"; }

  std::optional<Value> attribute(Interpreter& in, std::string_view name) override {
    const auto index = static_cast<int64_t>(index_);
    const auto length = static_cast<int64_t>(items_.size());
    if (name == "index") return Value(index + 1);
    if (name == "index0") return Value(index);
    if (name == "first") return Value(index == 0);
    if (name == "last") return Value(index + 1 == length);
    if (name == "length") return Value(length);
    if (name == "revindex") return Value(length - index);
    if (name == "revindex0") return Value(length - index - 1);
    if (name == "depth") return Value(int64_t{1});  // only recursive loops go deeper
    if (name == "depth0") return Value(int64_t{0});
    if (name == "previtem") {
      return index_ > 0 ? items_[index_ - 1] : in.heap().undefined("there is no previous item");
    }
    if (name == "nextitem") {
      return index_ + 1 < items_.size() ? items_[index_ + 1]
                                        : in.heap().undefined("there is no next item");
    }
    if (name == "cycle") {
      return in.heap().callable("cycle", [this](Interpreter&, Arguments& arguments) {
        if (arguments.positional.empty()) fail_render("cycle() needs something to cycle through");
        return arguments.positional[index_ % arguments.positional.size()];
      });
    }
    if (name == "changed") {
      return in.heap().callable("changed", [this](Interpreter& inner, Arguments& arguments) {
        const Value now = inner.heap().list(arguments.positional, List::Kind::tuple);
        const bool changed = !last_ || !equal(inner.heap(), *last_, now);
        last_ = now;
        return Value(changed);
      });
    }
    return std::nullopt;
  }

 private:
  std::vector<Value> items_;
  size_t index_ = 0;
  std::optional<Value> last_;
};

}  // namespace

class Interpreter::Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) {
    if (depth_ >= kDepth) fail_render("the template recurses too deeply");
    ++depth_;
  }
  ~Deeper() { --depth_; }

 private:
  int& depth_;
};

Text Interpreter::run(const Body& body) {
  Text out;
  out_ = &out;
  run_body(body);
  return out;
}

void Interpreter::write(const Text& text) {
  heap_.spend(1 + text.size() / 64);
  heap_.grow(text.size());
  out_->append(text);
}

Text Interpreter::capture(const Body& body) {
  Text captured;
  Text* const outer_out = std::exchange(out_, &captured);
  Scope* const outer = scope_;
  scope_ = heap_.open_scope(outer);
  run_body(body);
  heap_.close_scope(scope_);
  scope_ = outer;
  out_ = outer_out;
  return captured;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  const Deeper deeper(depth_);
  for (const Stmt& stmt : body) {
    if (const Flow flow = run(stmt); flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt) {
  heap_.spend(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::text:
      write(stmt.text.text());
      break;
    case StmtKind::print: {
      const Value value = eval(*stmt.expr);
      if (value.is_string()) {
        write(value.text());
      } else {
        write(to_text(heap_, value));
      }
      break;
    }
    case StmtKind::branch:
      for (size_t i = 0; i < stmt.bodies.size(); ++i) {
        const bool otherwise = i >= stmt.conditions.size();
        if (otherwise || is_true(eval(*stmt.conditions[i]))) return run_body(stmt.bodies[i]);
      }
      break;
    case StmtKind::loop:
      return run_loop(stmt);
    case StmtKind::assign:
      assign(*stmt.target, eval(*stmt.expr));
      break;
    case StmtKind::assign_block: {
      Value text = heap_.text(capture(stmt.bodies[0]));
      if (stmt.expr != nullptr) text = eval_chain(*stmt.expr, text);
      assign(*stmt.target, std::move(text));
      break;
    }
    case StmtKind::macro:
      run_macro_definition(stmt);
      break;
    case StmtKind::filter_block: {
      const Value text = heap_.text(capture(stmt.bodies[0]));
      write(to_text(heap_, eval_chain(*stmt.expr, text)));
      break;
    }
    case StmtKind::call_block:
      run_call_block(stmt);
      break;
    case StmtKind::scope:
      return run_scope(stmt);
    case StmtKind::stop:
      return Flow::stop;
    case StmtKind::next:
      return Flow::next;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_scope(const Stmt& stmt) {
  Scope* const outer = scope_;
  Scope* const inner = heap_.open_scope(outer);
  for (const Parameter& variable : stmt.parameters) {
    inner->set(variable.name, eval(*variable.standard));
  }
  scope_ = inner;
  const Flow flow = run_body(stmt.bodies[0]);
  scope_ = outer;
  heap_.close_scope(inner);
  return flow;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt) {
  std::vector<Value> items = items_of(eval(*stmt.expr));
  Scope* const outer = scope_;
  if (!stmt.conditions.empty()) {
    std::vector<Value> kept;
    for (Value& item : items) {
      scope_ = heap_.open_scope(outer);
      assign(*stmt.target, item);
      if (is_true(eval(*stmt.conditions[0]))) kept.push_back(std::move(item));
      heap_.close_scope(scope_);
      scope_ = outer;
    }
    items = std::move(kept);
  }
  if (items.empty()) return run_body(stmt.bodies[1]);

  heap_.grow(items.size() * sizeof(Value));
  auto owned = std::make_unique<Loop>(std::move(items));
  Loop& loop = *owned;
  const Value loop_value = heap_.object(std::move(owned));
  for (size_t i = 0; i < loop.items().size(); ++i) {
    heap_.spend(1);
    loop.move_to(i);
    scope_ = heap_.open_scope(outer);
    scope_->set("loop", loop_value);
    assign(*stmt.target, loop.items()[i]);
    const Flow flow = run_body(stmt.bodies[0]);
    heap_.close_scope(scope_);
    scope_ = outer;
    if (flow == Flow::stop) break;
  }
  return Flow::normal;
}

void Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::name) {
    heap_.grow(scope_->find(target.name) == nullptr ? sizeof(Value) : 0);
    scope_->set(target.name, std::move(value));
    return;
  }
  if (target.kind == ExprKind::tuple) {
    const std::vector<Value> items = items_of(value);
    if (items.size() != target.children.size()) {
      fail_render("{} values cannot be unpacked into {} names", items.size(),
                  target.children.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i]);
    return;
  }
  const Value holder = eval_name(target.children[0]->name);
  if (holder.dict() == nullptr || !holder.dict()->is_namespace) {
    fail_render("cannot assign to attribute '{}' of '{}': it is not a namespace", target.name,
                target.children[0]->name);
  }
  if (holder.dict()->find(target.name) == nullptr) heap_.grow(2 * sizeof(Value) + 96);
  holder.dict()->set(heap_.text(target.name, true), std::move(value));
}

Value Interpreter::make_macro(const Stmt& stmt, std::string name) {
  Scope* const closure = scope_;
  // The macro may be called when this block has ended: all scopes around it must stay.
  for (Scope* scope = closure; scope != nullptr; scope = scope->parent) scope->captured = true;
  return heap_.callable(name, [&stmt, closure, name](Interpreter& in, Arguments& arguments) {
    return in.run_macro(stmt, closure, arguments, name);
  });
}

void Interpreter::run_macro_definition(const Stmt& stmt) {
  Value macro = make_macro(stmt, stmt.name);
  scope_->set(stmt.name, std::move(macro));
}

void Interpreter::run_call_block(const Stmt& stmt) {
  const Value caller = make_macro(stmt, "caller");
  write(to_text(heap_, eval_call(*stmt.expr, &caller)));
}

Value Interpreter::run_macro(const Stmt& stmt, Scope* closure, Arguments& arguments,
                             std::string_view name) {
  const Deeper deeper(depth_);
  Scope* const outer = scope_;
  const int line = line_;
  Scope* const inner = heap_.open_scope(closure);
  const std::vector<Parameter>& parameters = stmt.parameters;
  if (arguments.positional.size() > parameters.size()) {
    fail_render("macro '{}' takes {} arguments, {} given", name, parameters.size(),
                arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    inner->set(parameters[i].name, arguments.positional[i]);
  }
  for (const auto& named : arguments.named) {
    const std::string& given = named.first;
    const bool known =
        given == "caller" || std::any_of(parameters.begin(), parameters.end(),
                                         [&](const Parameter& p) { return p.name == given; });
    if (!known) fail_render("macro '{}' has no parameter '{}'", name, given);
    if (inner->find(given) != nullptr) fail_render("macro '{}' got '{}' twice", name, given);
    inner->set(given, named.second);
  }
  scope_ = inner;
  for (const Parameter& parameter : parameters) {
    if (inner->find(parameter.name) != nullptr) continue;
    inner->set(parameter.name, parameter.standard != nullptr
                                   ? eval(*parameter.standard)
                                   : heap_.undefined(fmt::format("parameter '{}' was not provided",
                                                                 parameter.name)));
  }
  Text captured;
  Text* const outer_out = std::exchange(out_, &captured);
  run_body(stmt.bodies[0]);
  out_ = outer_out;
  scope_ = outer;
  line_ = line;
  heap_.close_scope(inner);
  return heap_.text(std::move(captured));
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  const Deeper deeper(depth_);
  require_defined(callee);
  if (callee.callable() == nullptr) fail_render("{} cannot be called", type_name(callee));
  return callee.callable()->call(*this, arguments);
}

Value Interpreter::apply_filter(std::string_view name, const Value& value, Arguments& arguments) {
  const Deeper deeper(depth_);
  Filter filter = find_filter(name);
  if (filter == nullptr) filter = find_text_filter(name);
  if (filter == nullptr) fail_render("there is no filter '{}'", name);
  heap_.spend(1);
  return filter(*this, value, arguments);
}

bool Interpreter::apply_test(std::string_view name, const Value& value, Arguments& arguments) {
  const Deeper deeper(depth_);
  const Test test = find_test(name);
  if (test == nullptr) fail_render("there is no test '{}'", name);
  heap_.spend(1);
  return test(*this, value, arguments);
}

Value Interpreter::eval_chain(const Expr& expr, const Value& text) {
  const Value* const outer = std::exchange(block_text_, &text);
  Value result = eval(expr);
  block_text_ = outer;
  return result;
}

Value Interpreter::eval(const Expr& expr) {
  const Deeper deeper(depth_);
  heap_.spend(1);
  if (expr.kind == ExprKind::literal) return expr.value;
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::literal:
      break;
    case ExprKind::name:
      return eval_name(expr.name);
    case ExprKind::list:
    case ExprKind::tuple: {
      std::vector<Value> items;
      for (const ExprPtr& child : expr.children) items.push_back(eval(*child));
      return heap_.list(std::move(items),
                        expr.kind == ExprKind::list ? List::Kind::list : List::Kind::tuple);
    }
    case ExprKind::dict:
      return eval_dict(expr);
    case ExprKind::attribute: {
      const Value value = eval(*expr.children[0]);
      line_ = expr.line;
      return attribute(value, expr.name);
    }
    case ExprKind::item: {
      const Value value = eval(*expr.children[0]);
      const Value key = eval(*expr.children[1]);
      line_ = expr.line;
      return item(value, key);
    }
    case ExprKind::slice:
      return eval_slice(expr);
    case ExprKind::call:
      return eval_call(expr, nullptr);
    case ExprKind::filter:
      return eval_filter(expr);
    case ExprKind::test: {
      const Value value = eval(*expr.children[0]);
      Arguments arguments = eval_arguments(expr);
      line_ = expr.line;
      return Value(apply_test(expr.name, value, arguments));
    }
    case ExprKind::unary:
      return eval_unary(expr);
    case ExprKind::binary: {
      const Value a = eval(*expr.children[0]);
      const Value b = eval(*expr.children[1]);
      line_ = expr.line;
      return binary(expr.name, a, b);
    }
    case ExprKind::logic_and: {
      Value a = eval(*expr.children[0]);
      return is_true(a) ? eval(*expr.children[1]) : a;
    }
    case ExprKind::logic_or: {
      Value a = eval(*expr.children[0]);
      return is_true(a) ? a : eval(*expr.children[1]);
    }
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::conditional:
      if (is_true(eval(*expr.children[1]))) return eval(*expr.children[0]);
      if (expr.children[2] != nullptr) return eval(*expr.children[2]);
      return heap_.undefined("the inline if-expression evaluated to false and has no else");
  }
  return expr.value;
}

Value Interpreter::eval_name(const std::string& name) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->find(name)) return *value;
  }
  return heap_.undefined(fmt::format("'{}' is undefined", name));
}

Value Interpreter::eval_dict(const Expr& expr) {
  Value result = heap_.dict();
  for (size_t i = 0; i < expr.children.size(); i += 2) {
    const Value key = eval(*expr.children[i]);
    heap_.grow(2 * sizeof(Value) + 96);
    result.dict()->set(key, eval(*expr.children[i + 1]));
  }
  return result;
}

Arguments Interpreter::eval_arguments(const Expr& expr) {
  Arguments arguments;
  for (size_t i = 1; i < expr.children.size(); ++i) {
    arguments.positional.push_back(eval(*expr.children[i]));
  }
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, eval(*value));
  if (expr.spread != nullptr) {
    for (Value& value : items_of(eval(*expr.spread))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  if (expr.spread_named != nullptr) {
    const Value more = eval(*expr.spread_named);
    if (more.dict() == nullptr) fail_render("'**' needs a dict, not {}", type_name(more));
    for (const auto& [key, value] : more.dict()->entries) {
      if (!key.is_string()) fail_render("'**' needs strings as keys, not {}", type_name(key));
      arguments.named.emplace_back(key.text().bytes(), value);
    }
  }
  return arguments;
}

Value Interpreter::eval_call(const Expr& expr, const Value* caller) {
  const Value callee = eval(*expr.children[0]);
  Arguments arguments = eval_arguments(expr);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, arguments);
}

Value Interpreter::eval_filter(const Expr& expr) {
  const Value value = expr.children[0] != nullptr ? eval(*expr.children[0]) : *block_text_;
  Arguments arguments = eval_arguments(expr);
  line_ = expr.line;
  return apply_filter(expr.name, value, arguments);
}

Value Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.children[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    const Value right = eval(*expr.children[i + 1]);
    const std::string& op = expr.operators[i];
    line_ = expr.line;
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(heap_, left, right) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(right, left) == (op == "in");
    } else {
      const int order = compare(heap_, left, right);
      holds = op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
    }
    if (!holds) return Value(false);
    left = right;
  }
  return Value(true);
}

}  // namespace fathom::jinja
