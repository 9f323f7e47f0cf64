// Filters over lists and dicts.
#include <algorithm>
#include <unordered_map>

#include "text/jinja_builtins.h"

namespace fathom::jinja {
namespace {

using In = Interpreter&;
using V = const Value&;
using A = const Arguments&;

Value length(In in, V value, A) {
  if (value.is_string()) {
    spend_on(in, value.text());
    return Value(static_cast<int64_t>(count_characters(value.text().view())));
  }
  if (value.list() != nullptr) return Value(static_cast<int64_t>(value.list()->items.size()));
  if (value.dict() != nullptr) return Value(static_cast<int64_t>(value.dict()->entries.size()));
  if (value.is_undefined()) return Value(int64_t{0});
  fail_render("{} has no length", type_name(value));
}

Value first_or_last(In in, V value, bool first) {
  const std::vector<Value> items = in.items_of(value);
  if (!items.empty()) return first ? items.front() : items.back();
  return in.heap().undefined(
      fmt::format("no {} item, the sequence was empty", first ? "first" : "last"));
}

Value generator(In in, std::vector<Value> items) {
  return in.heap().list(std::move(items), List::Kind::generator);
}

// A dotted attribute: names, or numbers for the places of lists.
Value attribute_path(In in, const Value& value, std::string_view path) {
  Value result = value;
  while (true) {
    const size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    result = in.item(result, number ? Value(static_cast<int64_t>(std::stoll(std::string(part))))
                                    : in.heap().text(part, true));
    if (dot == path.npos) return result;
    path.remove_prefix(dot + 1);
  }
}

Value attribute_of(In in, const Value& value, const Value& attribute) {
  if (attribute.is_string()) return attribute_path(in, value, attribute.text().view());
  return in.item(value, attribute);
}

Value without_case(In in, const Value& value) {
  if (!value.is_string()) return value;
  in.heap().spend(1 + value.text().size() / 4);
  return in.heap().text(change_case(value.text(), Casing::lower));
}

// The keys by which sort, min, max and unique compare.
struct Keyed {
  Value key;
  Value item;
};
std::vector<Keyed> keyed(In in, const std::vector<Value>& items, const Value* attribute,
                         bool case_sensitive) {
  std::vector<Keyed> result;
  for (const Value& item : items) {
    Value key = item;
    if (attribute != nullptr && !attribute->is_none()) {
      if (attribute->is_string() && attribute->text().bytes().find(',') != std::string::npos) {
        std::vector<Value> parts;  // several attributes: a tuple of keys
        const std::string_view comma = ",";
        for (const Text& name : split(attribute->text(), &comma, -1, false)) {
          const Value part = attribute_path(in, item, name.view());
          parts.push_back(case_sensitive ? part : without_case(in, part));
        }
        key = in.heap().list(std::move(parts), List::Kind::tuple);
      } else {
        key = attribute_of(in, item, *attribute);
      }
    }
    result.push_back({case_sensitive ? key : without_case(in, key), item});
  }
  return result;
}

void sort_keyed(In in, std::vector<Keyed>& items, bool reverse) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    return reverse ? compare(in.heap(), b.key, a.key) < 0 : compare(in.heap(), a.key, b.key) < 0;
  };
  std::stable_sort(items.begin(), items.end(), before);
}

Value sort(In in, V value, A arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> items = keyed(in, in.items_of(value), bound.get(2), bound.flag(1, false));
  sort_keyed(in, items, bound.flag(0, false));
  std::vector<Value> sorted;
  for (Keyed& item : items) sorted.push_back(std::move(item.item));
  return in.heap().list(std::move(sorted));
}

Value extreme(In in, V value, A arguments, bool largest) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> items =
      keyed(in, in.items_of(value), bound.get(1), bound.flag(0, false));
  if (items.empty()) return in.heap().undefined("the sequence was empty");
  const Keyed* best = &items[0];
  for (const Keyed& item : items) {
    const int order = compare(in.heap(), item.key, best->key);
    if (largest ? order > 0 : order < 0) best = &item;
  }
  return best->item;
}

Value unique(In in, V value, A arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> kept;
  for (Keyed& item : keyed(in, in.items_of(value), bound.get(1), bound.flag(0, false))) {
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& key) {
      return equal(in.heap(), key, item.key);
    });
    if (known) continue;
    seen.push_back(item.key);
    kept.push_back(std::move(item.item));
  }
  return generator(in, std::move(kept));
}

Value dictsort(In in, V value, A arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (value.dict() == nullptr) fail_render("dictsort needs a dict, not {}", type_name(value));
  const std::string by = bound.text(1) == nullptr ? "key" : bound.text(1)->bytes();
  if (by != "key" && by != "value") fail_render("dictsort: 'by' must be 'key' or 'value'");
  std::vector<Keyed> items;
  for (const auto& [key, item] : value.dict()->entries) {
    const Value& sort_by = by == "key" ? key : item;
    items.push_back({bound.flag(0, false) ? sort_by : without_case(in, sort_by),
                     in.heap().list({key, item}, List::Kind::tuple)});
  }
  sort_keyed(in, items, bound.flag(2, false));
  std::vector<Value> sorted;
  for (Keyed& item : items) sorted.push_back(std::move(item.item));
  return in.heap().list(std::move(sorted));
}

// select, reject, selectattr, rejectattr: [attribute,] test, arguments of the test.
Value select(In in, V value, A arguments, bool by_attribute, bool wanted) {
  Arguments rest = arguments;
  Value attribute;
  if (by_attribute) {
    if (rest.positional.empty()) fail_render("selectattr/rejectattr needs an attribute");
    attribute = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
  }
  std::string test;
  if (!rest.positional.empty()) {
    if (!rest.positional.front().is_string()) fail_render("the name of a test must be a string");
    test = rest.positional.front().text().bytes();
    rest.positional.erase(rest.positional.begin());
  }
  std::vector<Value> kept;
  for (Value& item : in.items_of(value)) {
    const Value subject = by_attribute ? attribute_of(in, item, attribute) : item;
    const bool holds = test.empty() ? is_true(subject) : in.apply_test(test, subject, rest);
    if (holds == wanted) kept.push_back(std::move(item));
  }
  return generator(in, std::move(kept));
}

Value map(In in, V value, A arguments) {
  std::vector<Value> results;
  Arguments rest = arguments;
  if (rest.positional.empty()) {
    const Bound bound("map", arguments, {"attribute", "default"});
    for (const Value& item : in.items_of(value)) {
      Value result = attribute_of(in, item, bound.required(0));
      if (result.is_undefined() && bound.get(1) != nullptr) result = *bound.get(1);
      results.push_back(std::move(result));
    }
    return generator(in, std::move(results));
  }
  if (!rest.positional.front().is_string())
    fail_render("map: the name of a filter must be a string");
  const std::string name = rest.positional.front().text().bytes();
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : in.items_of(value)) {
    results.push_back(in.apply_filter(name, item, rest));
  }
  return generator(in, std::move(results));
}

Value sum(In in, V value, A arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Value total = bound.get(1) != nullptr ? *bound.get(1) : Value(int64_t{0});
  for (const Value& item : in.items_of(value)) {
    const bool plain = bound.get(0) == nullptr || bound.get(0)->is_none();
    total = in.binary("+", total, plain ? item : attribute_of(in, item, *bound.get(0)));
  }
  return total;
}

Value reverse(In in, V value, A) {
  std::vector<Value> items = in.items_of(value);
  std::reverse(items.begin(), items.end());
  if (value.is_string()) return in.heap().text(join_texts(in, items, Text()));
  return generator(in, std::move(items));
}

Value batch(In in, V value, A arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"});
  bound.required(0);
  const int64_t size = bound.integer(0, 0);
  if (size < 1 || size > 1'000'000) fail_render("batch: {} is not a size", size);
  std::vector<Value> batches;
  std::vector<Value> current;
  for (Value& item : in.items_of(value)) {
    if (static_cast<int64_t>(current.size()) == size) {
      batches.push_back(in.heap().list(std::exchange(current, {})));
    }
    current.push_back(std::move(item));
  }
  if (!current.empty()) {
    if (bound.get(1) != nullptr && !bound.get(1)->is_none()) {
      current.resize(static_cast<size_t>(size), *bound.get(1));
    }
    batches.push_back(in.heap().list(std::move(current)));
  }
  return generator(in, std::move(batches));
}

Value group_by(In in, V value, A arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"});
  bound.required(0);
  std::vector<Keyed> items = keyed(in, in.items_of(value), bound.get(0), true);
  const auto folded = [&](const Value& key) {
    return bound.flag(2, false) ? key : without_case(in, key);
  };
  // Sorted and compared without regard to case, a group is called what its first member says.
  std::vector<Keyed> sorted;
  for (const Keyed& item : items) {
    const bool missing = item.key.is_undefined() && bound.get(1) != nullptr;
    const Value key = missing ? *bound.get(1) : item.key;
    sorted.push_back({folded(key), in.heap().list({key, item.item}, List::Kind::tuple)});
  }
  sort_keyed(in, sorted, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < sorted.size();) {
    std::vector<Value> members;
    size_t j = i;
    for (; j < sorted.size() && equal(in.heap(), sorted[i].key, sorted[j].key); ++j) {
      members.push_back(sorted[j].item.list()->items[1]);
    }
    groups.push_back(in.heap().list(
        {sorted[i].item.list()->items[0], in.heap().list(std::move(members))}, List::Kind::tuple));
    i = j;
  }
  return in.heap().list(std::move(groups));
}

Value items(In in, V value, A) {
  std::vector<Value> pairs;
  if (value.is_undefined()) return generator(in, {});
  if (value.dict() == nullptr) fail_render("items needs a dict, not {}", type_name(value));
  for (const auto& [key, item] : value.dict()->entries) {
    pairs.push_back(in.heap().list({key, item}, List::Kind::tuple));
  }
  return generator(in, std::move(pairs));
}

Value or_default(In, V value, A arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (bound.flag(1, false) && !is_true(value));
  if (!missing) return value;
  static const Value kEmpty(TextPtr(std::make_shared<const Text>()));
  return bound.get(0) != nullptr ? *bound.get(0) : kEmpty;
}

Value attr(In in, V value, A arguments) {
  const Bound bound("attr", arguments, {"name"});
  bound.required(0);
  const Text* name = bound.text(0);
  if (name == nullptr) fail_render("attr needs a name");
  return in.attribute(value, name->view());
}

}  // namespace

Filter find_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table{
      {"length", length},
      {"count", length},
      {"first", [](In in, V v, A) { return first_or_last(in, v, true); }},
      {"last", [](In in, V v, A) { return first_or_last(in, v, false); }},
      {"list", [](In in, V v, A) { return in.heap().list(in.items_of(v)); }},
      {"sort", sort},
      {"min", [](In in, V v, A a) { return extreme(in, v, a, false); }},
      {"max", [](In in, V v, A a) { return extreme(in, v, a, true); }},
      {"unique", unique},
      {"dictsort", dictsort},
      {"select", [](In in, V v, A a) { return select(in, v, a, false, true); }},
      {"reject", [](In in, V v, A a) { return select(in, v, a, false, false); }},
      {"selectattr", [](In in, V v, A a) { return select(in, v, a, true, true); }},
      {"rejectattr", [](In in, V v, A a) { return select(in, v, a, true, false); }},
      {"map", map},
      {"sum", sum},
      {"reverse", reverse},
      {"batch", batch},
      {"groupby", group_by},
      {"items", items},
      {"default", or_default},
      {"d", or_default},
      {"attr", attr},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace fathom::jinja
