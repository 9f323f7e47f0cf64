#include <cmath>
#include <unordered_map>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

using In = Interpreter&;
using V = const Value&;
using A = const Arguments&;

const Value& other(std::string_view test, A arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    fail_render("the test '{}' needs one argument", test);
  }
  return arguments.positional[0];
}

bool is_boolean(V v, bool wanted) { return v.is_bool() && v.boolean() == wanted; }

bool is_same(V a, V b) {
  if (a.list() != nullptr || b.list() != nullptr) return a.list() == b.list();
  if (a.dict() != nullptr || b.dict() != nullptr) return a.dict() == b.dict();
  if (a.is_bool() != b.is_bool() || a.is_float() != b.is_float()) return false;
  if (a.is_string() && b.is_string()) return a.text().bytes() == b.text().bytes();
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.is_float()) return a.real() == b.real();
  if (a.callable() != nullptr && b.callable() != nullptr) return a.callable() == b.callable();
  return a.is_none() && b.is_none();
}

int64_t whole(std::string_view test, V v) {
  require_defined(v);
  if (!v.integer()) fail_render("the test '{}' needs whole numbers, not {}", test, type_name(v));
  return *v.integer();
}

bool divisible(V value, V divisor) {
  const int64_t a = whole("divisibleby", value);
  const int64_t b = whole("divisibleby", divisor);
  if (b == 0) fail_render("division by zero");
  return b == -1 || a % b == 0;
}

bool is_mapping(V v) { return v.dict() != nullptr && !v.dict()->is_namespace; }
bool is_sequence(V v) {
  const bool listed = v.list() != nullptr && v.list()->kind != List::Kind::generator;
  return v.is_string() || listed || is_mapping(v) || v.is_undefined();
}
bool is_iterable(V v) {
  return v.is_string() || v.list() != nullptr || is_mapping(v) || v.is_undefined() ||
         v.object() != nullptr;
}

const std::unordered_map<std::string_view, Test>& tests() {
  static const std::unordered_map<std::string_view, Test> table{
      {"defined", [](In, V v, A) { return !v.is_undefined(); }},
      {"undefined", [](In, V v, A) { return v.is_undefined(); }},
      {"none", [](In, V v, A) { return v.is_none(); }},
      {"string", [](In, V v, A) { return v.is_string(); }},
      {"number", [](In, V v, A) { return v.is_number(); }},
      {"integer", [](In, V v, A) { return v.is_int(); }},
      {"float", [](In, V v, A) { return v.is_float(); }},
      {"boolean", [](In, V v, A) { return v.is_bool(); }},
      {"true", [](In, V v, A) { return is_boolean(v, true); }},
      {"false", [](In, V v, A) { return is_boolean(v, false); }},
      {"mapping", [](In, V v, A) { return is_mapping(v); }},
      {"sequence", [](In, V v, A) { return is_sequence(v); }},
      {"iterable", [](In, V v, A) { return is_iterable(v); }},
      {"callable", [](In, V v, A) { return v.callable() != nullptr; }},
      {"escaped", [](In, V, A) { return false; }},
      {"odd", [](In, V v, A) { return whole("odd", v) % 2 != 0; }},
      {"even", [](In, V v, A) { return whole("even", v) % 2 == 0; }},
      {"divisibleby", [](In, V v, A a) { return divisible(v, other("divisibleby", a)); }},
      {"lower",
       [](In in, V v, A) {
         return all_of_class(to_text(in.heap(), v).view(), CharacterClass::lower);
       }},
      {"upper",
       [](In in, V v, A) {
         return all_of_class(to_text(in.heap(), v).view(), CharacterClass::upper);
       }},
      {"in", [](In in, V v, A a) { return in.contains(other("in", a), v); }},
      {"sameas", [](In, V v, A a) { return is_same(v, other("sameas", a)); }},
      {"eq", [](In in, V v, A a) { return equal(in.heap(), v, other("eq", a)); }},
      {"ne", [](In in, V v, A a) { return !equal(in.heap(), v, other("ne", a)); }},
      {"lt", [](In in, V v, A a) { return compare(in.heap(), v, other("lt", a)) < 0; }},
      {"le", [](In in, V v, A a) { return compare(in.heap(), v, other("le", a)) <= 0; }},
      {"gt", [](In in, V v, A a) { return compare(in.heap(), v, other("gt", a)) > 0; }},
      {"ge", [](In in, V v, A a) { return compare(in.heap(), v, other("ge", a)) >= 0; }},
      {"filter",
       [](In, V v, A) {
         return v.is_string() && (find_filter(v.text().view()) != nullptr ||
                                  find_text_filter(v.text().view()) != nullptr);
       }},
      {"test", [](In, V v, A) { return v.is_string() && find_test(v.text().view()) != nullptr; }},
  };
  return table;
}

}  // namespace

Test find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, std::string_view> same{
      {"equalto", "eq"}, {"==", "eq"},          {"!=", "ne"}, {"lessthan", "lt"}, {"<", "lt"},
      {"<=", "le"},      {"greaterthan", "gt"}, {">", "gt"},  {">=", "ge"}};
  const auto alias = same.find(name);
  const auto found = tests().find(alias == same.end() ? name : alias->second);
  return found == tests().end() ? nullptr : found->second;
}

}  // namespace fathom::jinja
