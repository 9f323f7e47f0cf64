// The values of a template, and the memory that they live in.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_text.h"

namespace fathom::jinja {

// What went wrong, without the place; the renderer adds template and line.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
template <typename... Args>
[[noreturn]] void fail_render(fmt::format_string<Args...> text, Args&&... args) {
  throw Failure(fmt::format(text, std::forward<Args>(args)...));
}

struct List;
struct Dict;
class Object;
struct Callable;
class Interpreter;
using TextPtr = std::shared_ptr<const Text>;

// The default Undefined: prints as nothing, is empty and false; anything else is an error that says
// which name was missing.
struct Undefined {
  TextPtr what;
};
struct None {};

class Value {
 public:
  Value() = default;
  explicit Value(None) {}
  explicit Value(Undefined undefined) : kind_(Kind::undefined), text_(std::move(undefined.what)) {}
  explicit Value(bool value) : kind_(Kind::boolean) { scalar_.integer = value ? 1 : 0; }
  explicit Value(int64_t value) : kind_(Kind::integer) { scalar_.integer = value; }
  explicit Value(double value) : kind_(Kind::real) { scalar_.real = value; }
  explicit Value(TextPtr text) : kind_(Kind::string), text_(std::move(text)) {}
  explicit Value(List* list) : kind_(Kind::list) { scalar_.list = list; }
  explicit Value(Dict* dict) : kind_(Kind::dict) { scalar_.dict = dict; }
  explicit Value(Object* object) : kind_(Kind::object) { scalar_.object = object; }
  explicit Value(Callable* callable) : kind_(Kind::callable) { scalar_.callable = callable; }

  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_bool() const { return kind_ == Kind::boolean; }
  bool is_int() const { return kind_ == Kind::integer; }  // not a bool
  bool is_float() const { return kind_ == Kind::real; }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return kind_ == Kind::string; }

  bool boolean() const { return scalar_.integer != 0; }  // of a bool
  double real() const { return scalar_.real; }           // of a float
  const Text& text() const { return *text_; }            // of a string, or what is undefined
  // nullptr for values of other kinds.
  List* list() const { return kind_ == Kind::list ? scalar_.list : nullptr; }
  Dict* dict() const { return kind_ == Kind::dict ? scalar_.dict : nullptr; }
  Object* object() const { return kind_ == Kind::object ? scalar_.object : nullptr; }
  Callable* callable() const { return kind_ == Kind::callable ? scalar_.callable : nullptr; }
  // bool and int; nullopt for anything else.
  std::optional<int64_t> integer() const {
    return is_bool() || is_int() ? std::optional(scalar_.integer) : std::nullopt;
  }
  std::optional<double> number() const {
    if (is_float()) return scalar_.real;
    return is_number() ? std::optional(static_cast<double>(scalar_.integer)) : std::nullopt;
  }

 private:
  enum class Kind : uint8_t {
    none,
    undefined,
    boolean,
    integer,
    real,
    string,
    list,
    dict,
    object,
    callable,
  };
  union Scalar {
    int64_t integer = 0;
    double real;
    List* list;
    Dict* dict;
    Object* object;
    Callable* callable;
  };

  Kind kind_ = Kind::none;
  Scalar scalar_;
  TextPtr text_;
};

struct List {
  // A generator is what filters such as `map` give: true even when empty.
  enum class Kind { list, tuple, generator };
  Kind kind = Kind::list;
  std::vector<Value> items;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion
  std::unordered_map<std::string, size_t> places;
  bool is_namespace = false;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);
  std::optional<Value> remove(const Value& key);
};

// A value with attributes of its own: `loop`.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::optional<Value> attribute(Interpreter& in, std::string_view name) = 0;
  virtual std::string_view type_name() const = 0;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, Arguments&)> call;
};

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string, Value>> variables;
  bool captured = false;  // a macro was defined here, so the scope must outlive its block

  Value* find(std::string_view name);
  void set(const std::string& name, Value value);
};

// Memory and time of one rendering. Containers live until it ends (they may refer to one another in
// circles), strings as long as something refers to them. Whatever a template does, it ends in
// bounded time and memory, or fails.
class Heap {
 public:
  explicit Heap(size_t input_bytes);
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void spend(size_t steps);
  // Fails unless `bytes` more could be held.
  void need(size_t bytes) const;

  Value text(Text text);
  Value text(std::string_view bytes, bool trusted) { return text(Text(bytes, trusted)); }
  Value list(std::vector<Value> items, List::Kind kind = List::Kind::list);
  Value dict();
  Value callable(std::string name, std::function<Value(Interpreter&, Arguments&)> call);
  Value object(std::unique_ptr<Object> object);
  Value undefined(std::string what);
  Scope* open_scope(Scope* parent);
  void close_scope(Scope* scope);
  void grow(size_t bytes);  // a container has grown; never given back
  // Strings and numbers of messages and variables: untrusted.
  Value from_json(const nlohmann::ordered_json& json, int depth = 0);

 private:
  size_t steps_left_;
  size_t limit_;
  size_t held_ = 0;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Callable> callables_;
  std::deque<std::unique_ptr<Object>> objects_;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
};

bool is_true(const Value& value);
// Values can share parts, so walking one may take far more time than memory: whatever walks spends
// steps of the heap.
bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
// < 0, 0 or > 0; fails for types that have no order between them.
int compare(Heap& heap, const Value& a, const Value& b, int depth = 0);
std::string type_name(const Value& value);  // as Python calls it
// Fails where the value is undefined.
void require_defined(const Value& value);
// str() and repr(), with the marks of the strings within. Numbers and the like are untrusted.
Text to_text(Heap& heap, const Value& value);
void append_repr(Heap& heap, Text& out, const Value& value, int depth = 0);
std::string format_float(double value);  // as Python prints it

struct JsonStyle {
  int indent = -1;  // < 0: on one line
  bool ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
void append_json(Heap& heap, Text& out, const Value& value, const JsonStyle& style);

}  // namespace fathom::jinja
