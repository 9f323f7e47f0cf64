#include <algorithm>
#include <cmath>

#include "text/jinja_builtins.h"
#include "text/jinja_interpreter.h"

namespace fathom::jinja {
namespace {

std::string object_name(const Value& value) {
  return value.is_none() ? "None" : type_name(value) + " object";
}

[[noreturn]] void fail_types(std::string_view op, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  fail_render("unsupported types for '{}': {} and {}", op, type_name(a), type_name(b));
}

[[noreturn]] void fail_range() { fail_render("a number does not fit into 64 bits"); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fail_render("division by zero");
  if (a == INT64_MIN && b == -1) fail_range();
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

double floor_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value power(const Value& a, const Value& b) {
  const auto base = a.integer();
  auto exponent = b.integer();
  if (!base || !exponent || *exponent < 0) return Value(std::pow(*a.number(), *b.number()));
  int64_t result = 1;
  int64_t factor = *base;
  for (; *exponent > 0; *exponent >>= 1) {
    if ((*exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) fail_range();
    if (*exponent > 1 && __builtin_mul_overflow(factor, factor, &factor)) fail_range();
  }
  return Value(result);
}

Value arithmetic(std::string_view op, const Value& a, const Value& b) {
  const auto x = a.integer();
  const auto y = b.integer();
  if (op == "/") {
    if (*b.number() == 0) fail_render("division by zero");
    return Value(*a.number() / *b.number());
  }
  if (op == "**") return power(a, b);
  if (x && y) {
    int64_t result = 0;
    bool overflow = false;
    if (op == "+") overflow = __builtin_add_overflow(*x, *y, &result);
    if (op == "-") overflow = __builtin_sub_overflow(*x, *y, &result);
    if (op == "*") overflow = __builtin_mul_overflow(*x, *y, &result);
    if (op == "//") result = floor_divide(*x, *y);
    if (op == "%") result = *y == -1 ? 0 : *x - floor_divide(*x, *y) * *y;
    if (overflow) fail_range();
    return Value(result);
  }
  const double p = *a.number();
  const double q = *b.number();
  if (op == "+") return Value(p + q);
  if (op == "-") return Value(p - q);
  if (op == "*") return Value(p * q);
  if (q == 0) fail_render("division by zero");
  return Value(op == "%" ? floor_remainder(p, q) : std::floor(p / q));
}

Value repeat(Interpreter& in, const Value& what, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (what.is_string()) {
    const Text& text = what.text();
    Text result;
    for (size_t i = 0; i < times && !text.empty(); ++i) {
      in.heap().spend(1 + text.size() / 64);
      in.heap().need(result.size() + result.runs().size() * sizeof(Text::Run));
      result.append(text);
    }
    return in.heap().text(std::move(result));
  }
  const List& list = *what.list();
  std::vector<Value> items;
  for (size_t i = 0; i < times && !list.items.empty(); ++i) {
    in.heap().spend(1 + list.items.size());
    in.heap().need(items.size() * sizeof(Value));
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return in.heap().list(std::move(items), list.kind);
}

}  // namespace

Value Interpreter::binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "~") {
    Text text = to_text(heap_, a);
    heap_.need(text.size());
    text.append(to_text(heap_, b));
    return heap_.text(std::move(text));
  }
  if (op == "%" && a.is_string()) {
    if (b.dict() != nullptr) return heap_.text(format_percent(*this, a.text(), {}, &b));
    const bool tuple = b.list() != nullptr && b.list()->kind == List::Kind::tuple;
    return heap_.text(
        format_percent(*this, a.text(), tuple ? b.list()->items : std::vector<Value>{b}, nullptr));
  }
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == "+" && a.is_string() && b.is_string()) {
    Text text = a.text();
    text.append(b.text());
    return heap_.text(std::move(text));
  }
  const List* x = a.list();
  const List* y = b.list();
  if (op == "+" && x != nullptr && y != nullptr && x->kind == y->kind) {
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return heap_.list(std::move(items), x->kind);
  }
  if (op == "*") {
    if ((a.is_string() || x != nullptr) && b.integer()) return repeat(*this, a, *b.integer());
    if ((b.is_string() || y != nullptr) && a.integer()) return repeat(*this, b, *a.integer());
  }
  fail_types(op, a, b);
}

Value Interpreter::eval_unary(const Expr& expr) {
  const Value value = eval(*expr.children[0]);
  line_ = expr.line;
  if (expr.name == "not") return Value(!is_true(value));
  require_defined(value);
  if (!value.is_number()) fail_render("unsupported type for '{}': {}", expr.name, type_name(value));
  if (value.is_float()) {
    return Value(expr.name == "-" ? -value.real() : value.real());
  }
  int64_t result = *value.integer();
  if (expr.name == "-" && __builtin_sub_overflow(int64_t{0}, result, &result)) fail_range();
  return Value(result);
}

std::vector<Value> Interpreter::items_of(const Value& iterable) {
  std::vector<Value> items;
  if (const List* list = iterable.list()) {
    items = list->items;
  } else if (const Dict* dict = iterable.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (iterable.is_string()) {
    const Text& text = iterable.text();
    const std::vector<size_t> offsets = character_offsets(text.view());
    heap_.need(offsets.size() * 128);
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      items.push_back(heap_.text(text.part(offsets[i], offsets[i + 1])));
    }
  } else if (!iterable.is_undefined()) {
    fail_render("{} is not iterable", type_name(iterable));
  }
  heap_.spend(items.size());
  return items;
}

bool Interpreter::contains(const Value& container, const Value& wanted) {
  if (container.is_string()) {
    require_defined(wanted);
    if (!wanted.is_string()) {
      fail_render("'in' a string needs a string to look for, not {}", type_name(wanted));
    }
    heap_.spend(1 + container.text().size() / 64);
    return container.text().bytes().find(wanted.text().bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict(); dict != nullptr && !dict->is_namespace) {
    return !wanted.is_undefined() && dict->find(wanted) != nullptr;
  }
  if (const List* list = container.list()) {
    heap_.spend(list->items.size());
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& item) { return equal(heap_, item, wanted); });
  }
  if (container.is_undefined()) return false;
  fail_render("'in' needs a string, list or dict, not {}", type_name(container));
}

Value Interpreter::attribute(const Value& value, std::string_view name) {
  require_defined(value);
  if (const Dict* dict = value.dict(); dict != nullptr && dict->is_namespace) {
    if (const Value* found = dict->find(name)) return *found;
  } else if (value.object() != nullptr) {
    if (auto found = value.object()->attribute(*this, name)) return *found;
  } else {
    if (auto method = find_method(*this, value, name)) return *method;
    if (dict != nullptr) {
      if (const Value* found = dict->find(name)) return *found;
    }
  }
  return heap_.undefined(fmt::format("'{}' has no attribute '{}'", object_name(value), name));
}

Value Interpreter::item(const Value& value, const Value& key) {
  require_defined(value);
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    if (key.is_undefined() || key.list() != nullptr || key.dict() != nullptr) {
      return heap_.undefined(
          fmt::format("'dict object' has no element of type {}", type_name(key)));
    }
    if (const Value* found = dict->find(key)) return *found;
  }
  if (const auto index = key.integer(); index && (value.is_string() || value.list() != nullptr)) {
    // Bytes are not characters: a string is cut at its characters.
    std::vector<size_t> offsets;
    if (value.is_string()) offsets = character_offsets(value.text().view());
    const auto size =
        static_cast<int64_t>(value.is_string() ? offsets.size() - 1 : value.list()->items.size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at >= 0 && at < size) {
      const auto place = static_cast<size_t>(at);
      if (!value.is_string()) return value.list()->items[place];
      heap_.spend(1 + offsets.size() / 16);
      return heap_.text(value.text().part(offsets[place], offsets[place + 1]));
    }
    return heap_.undefined(fmt::format("'{}' has no element {}", object_name(value), *index));
  }
  if (key.is_string()) return attribute(value, key.text().view());
  return heap_.undefined(
      fmt::format("'{}' has no element of type {}", object_name(value), type_name(key)));
}

Value Interpreter::eval_slice(const Expr& expr) {
  const Value value = eval(*expr.children[0]);
  std::optional<int64_t> parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    const Value part = eval(*expr.children[i + 1]);
    if (part.is_none()) continue;
    require_defined(part);
    if (!part.integer()) fail_render("a slice needs whole numbers, not {}", type_name(part));
    parts[i] = part.integer();
  }
  line_ = expr.line;
  require_defined(value);
  if (!value.is_string() && value.list() == nullptr) {
    return heap_.undefined(fmt::format("'{}' has no slices", object_name(value)));
  }
  std::vector<size_t> offsets;
  if (value.is_string()) offsets = character_offsets(value.text().view());
  const auto size =
      static_cast<int64_t>(value.is_string() ? offsets.size() - 1 : value.list()->items.size());
  const int64_t step = parts[2].value_or(1);
  if (step == 0) fail_render("the step of a slice must not be 0");
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto bound = [&](std::optional<int64_t> given, int64_t standard) {
    if (!given) return standard;
    return std::clamp(*given < 0 ? *given + size : *given, low, high);
  };
  const int64_t begin = bound(parts[0], step > 0 ? low : high);
  const int64_t end = bound(parts[1], step > 0 ? high : low);

  Text text;
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    const auto place = static_cast<size_t>(i);
    if (value.is_string()) {
      text.append(value.text(), offsets[place], offsets[place + 1]);
    } else {
      items.push_back(value.list()->items[place]);
    }
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  heap_.spend(1 + text.size() + offsets.size() / 16);
  if (value.is_string()) return heap_.text(std::move(text));
  return heap_.list(std::move(items), value.list()->kind);
}

}  // namespace fathom::jinja
