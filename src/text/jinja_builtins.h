// What templates find without defining it: filters, tests, methods, functions.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_interpreter.h"
#include "text/jinja_value.h"

namespace fathom::jinja {

// Arguments by the names of a signature, given by place or by name.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names);

  const Value* get(size_t place) const { return values_[place]; }  // nullptr where not given
  const Value& required(size_t place) const;
  bool flag(size_t place, bool standard) const;
  int64_t integer(size_t place, int64_t standard) const;
  // nullptr where not given or none; anything but a string fails.
  const Text* text(size_t place) const;

 private:
  std::string function_;
  std::vector<std::string> names_;
  std::vector<const Value*> values_;
};

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);
using Test = bool (*)(Interpreter&, const Value&, const Arguments&);
// nullptr where there is none.
Filter find_filter(std::string_view name);
Filter find_text_filter(std::string_view name);
Test find_test(std::string_view name);
// A method of a string, list or dict, bound to it.
std::optional<Value> find_method(Interpreter& in, const Value& self, std::string_view name);
void add_functions(Heap& heap, Scope& globals);

// "%d items" % (3,) and "{} items".format(3).
Text format_percent(Interpreter& in, const Text& format, const std::vector<Value>& values,
                    const Value* mapping);
Text format_braces(Interpreter& in, const Text& format, const Arguments& arguments);
// Date and time by the codes of strftime; local time now.
std::string format_now(std::string_view format);

// Helpers shared by several of them.
Text replace_text(Interpreter& in, const Text& text, const Text& from, const Text& to,
                  int64_t most);
Text join_texts(Interpreter& in, const std::vector<Value>& items, const Text& between);
Value texts_to_list(Interpreter& in, std::vector<Text> texts);
void spend_on(Interpreter& in, const Text& text);

}  // namespace fathom::jinja
