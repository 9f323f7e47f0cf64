#include <algorithm>
#include <unordered_map>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

using Method = Value (*)(Interpreter&, const Value&, const Arguments&);
using In = Interpreter&;
using V = const Value&;
using A = const Arguments&;

const Text& required_text(const Bound& bound, size_t place) {
  bound.required(place);
  const Text* text = bound.text(place);
  if (text == nullptr) fail_render("a string method got none where it needs a string");
  return *text;
}

Value strip_method(In in, V self, A arguments, bool left, bool right) {
  const Bound bound("strip", arguments, {"chars"});
  spend_on(in, self.text());
  const Text* set = bound.text(0);
  const std::string_view view = set == nullptr ? std::string_view() : set->view();
  return in.heap().text(strip(self.text(), set == nullptr ? nullptr : &view, left, right));
}

Value split_method(In in, V self, A arguments, bool from_right) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const Text* separator = bound.text(0);
  if (separator != nullptr && separator->empty()) fail_render("split: the separator is empty");
  const std::string_view view = separator == nullptr ? std::string_view() : separator->view();
  spend_on(in, self.text());
  in.heap().need(self.text().size() * 2);
  return texts_to_list(in, split(self.text(), separator == nullptr ? nullptr : &view,
                                 bound.integer(1, -1), from_right));
}

// The part of a string that `start` and `end` (characters, as for slices) leave.
struct Window {
  size_t begin;
  size_t end;
  std::vector<size_t> offsets;
};
Window window_of(const Text& text, const Bound& bound, size_t first_place) {
  Window window{0, 0, character_offsets(text.view())};
  const auto size = static_cast<int64_t>(window.offsets.size() - 1);
  const auto place = [&](int64_t at) {
    return window
        .offsets[static_cast<size_t>(std::clamp<int64_t>(at < 0 ? at + size : at, 0, size))];
  };
  window.begin = place(bound.integer(first_place, 0));
  window.end = place(bound.integer(first_place + 1, size));
  return window;
}

Value affix_method(In in, V self, A arguments, bool at_start) {
  const Bound bound(at_start ? "startswith" : "endswith", arguments, {"prefix", "start", "end"});
  spend_on(in, self.text());
  const Window window = window_of(self.text(), bound, 1);
  if (window.begin > window.end) return Value(false);
  const std::string_view text = self.text().view().substr(window.begin, window.end - window.begin);
  const auto matches = [&](const Value& affix) {
    require_defined(affix);
    if (!affix.is_string())
      fail_render("startswith/endswith needs strings, not {}", type_name(affix));
    return at_start ? text.starts_with(affix.text().view()) : text.ends_with(affix.text().view());
  };
  const Value& wanted = bound.required(0);
  if (wanted.list() == nullptr) return Value(matches(wanted));
  const std::vector<Value>& any = wanted.list()->items;
  return Value(std::any_of(any.begin(), any.end(), matches));
}

Value find_method_of(In in, V self, A arguments, bool from_right, bool must) {
  const Bound bound(from_right ? "rfind" : "find", arguments, {"sub", "start", "end"});
  spend_on(in, self.text());
  const std::string& wanted = required_text(bound, 0).bytes();
  const Window window = window_of(self.text(), bound, 1);
  size_t at = std::string::npos;
  if (window.begin <= window.end) {
    const std::string_view text =
        self.text().view().substr(window.begin, window.end - window.begin);
    at = from_right ? text.rfind(wanted) : text.find(wanted);
  }
  if (at == std::string::npos) {
    if (must) fail_render("index: the string is not there");
    return Value(int64_t{-1});
  }
  const auto place =
      std::lower_bound(window.offsets.begin(), window.offsets.end(), at + window.begin);
  return Value(static_cast<int64_t>(place - window.offsets.begin()));
}

Value count_method(In in, V self, A arguments) {
  const Bound bound("count", arguments, {"sub"});
  spend_on(in, self.text());
  const std::string& wanted = required_text(bound, 0).bytes();
  if (wanted.empty()) return Value(static_cast<int64_t>(count_characters(self.text().view()) + 1));
  int64_t count = 0;
  for (size_t at = 0; (at = self.text().bytes().find(wanted, at)) != std::string::npos; ++count) {
    at += wanted.size();
  }
  return Value(count);
}

Value remove_affix(In in, V self, A arguments, bool prefix) {
  const Bound bound("removeprefix/removesuffix", arguments, {"affix"});
  const Text& text = self.text();
  const std::string& affix = required_text(bound, 0).bytes();
  if (prefix && text.view().starts_with(affix)) {
    return in.heap().text(text.part(affix.size(), text.size()));
  }
  if (!prefix && text.view().ends_with(affix)) {
    return in.heap().text(text.part(0, text.size() - affix.size()));
  }
  return self;
}

Value cased(In in, V self, Casing casing) {
  in.heap().spend(1 + self.text().size() / 4);
  return in.heap().text(change_case(self.text(), casing));
}

Value of_class(In in, V self, CharacterClass wanted) {
  spend_on(in, self.text());
  return Value(all_of_class(self.text().view(), wanted));
}

Value replace_method(In in, V self, A arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"});
  return in.heap().text(replace_text(in, self.text(), required_text(bound, 0),
                                     required_text(bound, 1), bound.integer(2, -1)));
}

Value zero_fill(In in, V self, A arguments) {
  const Bound bound("zfill", arguments, {"width"});
  bound.required(0);
  const auto width = static_cast<size_t>(std::clamp<int64_t>(bound.integer(0, 0), 0, 10000));
  const Text& text = self.text();
  const size_t size = count_characters(text.view());
  const size_t sign = text.view().starts_with('-') || text.view().starts_with('+') ? 1 : 0;
  Text result = text.part(0, sign);
  if (width > size) result.append(std::string(width - size, '0'), true);
  result.append(text, sign, text.size());
  return in.heap().text(std::move(result));
}

const std::unordered_map<std::string_view, Method>& string_methods() {
  static const std::unordered_map<std::string_view, Method> table{
      {"strip", [](In in, V s, A a) { return strip_method(in, s, a, true, true); }},
      {"lstrip", [](In in, V s, A a) { return strip_method(in, s, a, true, false); }},
      {"rstrip", [](In in, V s, A a) { return strip_method(in, s, a, false, true); }},
      {"split", [](In in, V s, A a) { return split_method(in, s, a, false); }},
      {"rsplit", [](In in, V s, A a) { return split_method(in, s, a, true); }},
      {"splitlines",
       [](In in, V s, A a) {
         const Bound bound("splitlines", a, {"keepends"});
         spend_on(in, s.text());
         return texts_to_list(in, split_lines(s.text(), bound.flag(0, false)));
       }},
      {"startswith", [](In in, V s, A a) { return affix_method(in, s, a, true); }},
      {"endswith", [](In in, V s, A a) { return affix_method(in, s, a, false); }},
      {"find", [](In in, V s, A a) { return find_method_of(in, s, a, false, false); }},
      {"rfind", [](In in, V s, A a) { return find_method_of(in, s, a, true, false); }},
      {"index", [](In in, V s, A a) { return find_method_of(in, s, a, false, true); }},
      {"count", count_method},
      {"replace", replace_method},
      {"removeprefix", [](In in, V s, A a) { return remove_affix(in, s, a, true); }},
      {"removesuffix", [](In in, V s, A a) { return remove_affix(in, s, a, false); }},
      {"upper", [](In in, V s, A) { return cased(in, s, Casing::upper); }},
      {"lower", [](In in, V s, A) { return cased(in, s, Casing::lower); }},
      {"title", [](In in, V s, A) { return cased(in, s, Casing::title); }},
      {"capitalize", [](In in, V s, A) { return cased(in, s, Casing::capitalize); }},
      {"isdigit", [](In in, V s, A) { return of_class(in, s, CharacterClass::digit); }},
      {"isdecimal", [](In in, V s, A) { return of_class(in, s, CharacterClass::digit); }},
      {"isnumeric", [](In in, V s, A) { return of_class(in, s, CharacterClass::digit); }},
      {"isalpha", [](In in, V s, A) { return of_class(in, s, CharacterClass::alpha); }},
      {"isalnum", [](In in, V s, A) { return of_class(in, s, CharacterClass::alnum); }},
      {"isspace", [](In in, V s, A) { return of_class(in, s, CharacterClass::space); }},
      {"isupper", [](In in, V s, A) { return of_class(in, s, CharacterClass::upper); }},
      {"islower", [](In in, V s, A) { return of_class(in, s, CharacterClass::lower); }},
      {"zfill", zero_fill},
      {"join",
       [](In in, V s, A a) {
         const Bound bound("join", a, {"iterable"});
         return in.heap().text(join_texts(in, in.items_of(bound.required(0)), s.text()));
       }},
      {"format", [](In in, V s, A a) { return in.heap().text(format_braces(in, s.text(), a)); }},
  };
  return table;
}

Value pair_of(In in, V key, V value) { return in.heap().list({key, value}, List::Kind::tuple); }

const std::unordered_map<std::string_view, Method>& dict_methods() {
  static const std::unordered_map<std::string_view, Method> table{
      {"items",
       [](In in, V s, A) {
         std::vector<Value> items;
         for (const auto& [key, value] : s.dict()->entries)
           items.push_back(pair_of(in, key, value));
         return in.heap().list(std::move(items));
       }},
      {"keys", [](In in, V s, A) { return in.heap().list(in.items_of(s)); }},
      {"values",
       [](In in, V s, A) {
         std::vector<Value> items;
         for (const auto& entry : s.dict()->entries) items.push_back(entry.second);
         return in.heap().list(std::move(items));
       }},
      {"get",
       [](In, V s, A a) {
         const Bound bound("get", a, {"key", "default"});
         const Value* found = s.dict()->find(bound.required(0));
         if (found != nullptr) return *found;
         return bound.get(1) != nullptr ? *bound.get(1) : Value(None{});
       }},
      {"copy",
       [](In in, V s, A) {
         Value copy = in.heap().dict();
         in.heap().grow(s.dict()->entries.size() * (2 * sizeof(Value) + 96));
         in.heap().spend(s.dict()->entries.size());
         *copy.dict() = *s.dict();
         return copy;
       }},
      {"pop",
       [](In in, V s, A a) {
         const Bound bound("pop", a, {"key", "default"});
         in.heap().spend(s.dict()->entries.size());
         if (auto value = s.dict()->remove(bound.required(0))) return *value;
         if (bound.get(1) != nullptr) return *bound.get(1);
         fail_render("pop: the key is not there");
       }},
      {"update",
       [](In in, V s, A a) {
         Arguments from = a;
         const auto set = [&](V key, V value) {
           in.heap().grow(2 * sizeof(Value) + 96);
           s.dict()->set(key, value);
         };
         if (!from.positional.empty()) {
           const Value& other = from.positional[0];
           if (other.dict() == nullptr) fail_render("update needs a dict");
           const auto entries = other.dict()->entries;
           for (const auto& [key, value] : entries) set(key, value);
         }
         for (const auto& [name, value] : from.named) set(in.heap().text(name, true), value);
         return Value(None{});
       }},
  };
  return table;
}

const std::unordered_map<std::string_view, Method>& list_methods() {
  static const std::unordered_map<std::string_view, Method> table{
      {"append",
       [](In in, V s, A a) {
         const Bound bound("append", a, {"object"});
         in.heap().grow(2 * sizeof(Value));
         s.list()->items.push_back(bound.required(0));
         return Value(None{});
       }},
      {"pop",
       [](In in, V s, A a) {
         const Bound bound("pop", a, {"index"});
         std::vector<Value>& items = s.list()->items;
         const auto size = static_cast<int64_t>(items.size());
         int64_t at = bound.integer(0, -1);
         if (at < 0) at += size;
         if (at < 0 || at >= size) fail_render("pop: there is no such element");
         in.heap().spend(items.size());
         const Value value = items[static_cast<size_t>(at)];
         items.erase(items.begin() + at);
         return value;
       }},
      {"index",
       [](In in, V s, A a) {
         const Bound bound("index", a, {"value"});
         const std::vector<Value>& items = s.list()->items;
         for (size_t i = 0; i < items.size(); ++i) {
           if (equal(in.heap(), items[i], bound.required(0))) return Value(static_cast<int64_t>(i));
         }
         fail_render("index: the value is not in the list");
       }},
      {"count",
       [](In in, V s, A a) {
         const Bound bound("count", a, {"value"});
         int64_t count = 0;
         for (const Value& item : s.list()->items) {
           count += equal(in.heap(), item, bound.required(0)) ? 1 : 0;
         }
         return Value(count);
       }},
  };
  return table;
}

}  // namespace

std::optional<Value> find_method(Interpreter& in, const Value& self, std::string_view name) {
  const std::unordered_map<std::string_view, Method>* table = nullptr;
  if (self.is_string()) table = &string_methods();
  if (self.list() != nullptr) table = &list_methods();
  if (self.dict() != nullptr) table = &dict_methods();
  if (table == nullptr) return std::nullopt;
  const auto found = table->find(name);
  if (found == table->end()) return std::nullopt;
  const Method method = found->second;
  return in.heap().callable(std::string(name),
                            [method, self](Interpreter& inner, Arguments& arguments) {
                              return method(inner, self, arguments);
                            });
}

}  // namespace fathom::jinja
