#include "grammar/rule_maker.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "grammar/json_text.h"
#include "grammar/scalar_schema.h"

namespace fathom::grammar {
namespace {

using nlohmann::ordered_json;

std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_value_keyword(const std::string& name) {
  return name == "enum" || name == "const" || name == "type";
}

}  // namespace

RuleMaker::RuleMaker(const ordered_json& root) : reader_(root) { rules_.rules.emplace_back(); }

Symbol RuleMaker::reserve(const std::string& key, bool* made) {
  const auto [at, added] =
      symbols_.try_emplace(key, kFirstCall + static_cast<Symbol>(rules_.rules.size()));
  if (added) rules_.rules.emplace_back();
  *made = added;
  return at->second;
}

Symbol RuleMaker::shared(const std::string& name, const std::function<Fragment(Nfa&)>& make) {
  bool made = false;
  const Symbol symbol = reserve(name, &made);
  if (made) {
    Nfa nfa;
    const Fragment whole = make(nfa);
    rules_.rules[static_cast<size_t>(symbol - kFirstCall)] = pruned(nfa.determinise(whole));
  }
  return symbol;
}

// Rules of schemas that refer to themselves are reserved before they are made.
Symbol RuleMaker::value(const ordered_json& schema, const std::string& path) {
  return shared(json_text(schema), [&](Nfa& nfa) {
    std::vector<Fragment> parts;
    for (const FlatSchema& one : reader_.alternatives(schema, path)) {
      parts.push_back(flat(nfa, one));
    }
    return nfa.either(parts);
  });
}

Nfa::Fragment RuleMaker::flat(Nfa& nfa, const FlatSchema& schema) {
  if (schema.keywords.contains("enum") || schema.keywords.contains("const")) {
    return constants(nfa, schema);
  }
  std::vector<Fragment> parts;
  for (const std::string& type : types_of(schema)) parts.push_back(of_type(nfa, schema, type));
  return nfa.either(parts);
}

Nfa::Fragment RuleMaker::constants(Nfa& nfa, const FlatSchema& schema) {
  ordered_json values = ordered_json::array();
  const auto list = schema.keywords.find("enum");
  if (list != schema.keywords.end()) {
    if (!list->is_array()) fail_usage("{}: 'enum' must be an array", schema.path);
    values = *list;
  }
  if (const auto one = schema.keywords.find("const"); one != schema.keywords.end()) {
    const bool listed = list == schema.keywords.end() ||
                        std::find(values.begin(), values.end(), *one) != values.end();
    values = ordered_json::array();
    if (listed) values.push_back(*one);
  }
  std::vector<Fragment> parts;
  for (const ordered_json& value : values) {
    if (fits(schema, value)) parts.push_back(nfa.literal(json_text(value)));
  }
  return nfa.either(parts);
}

// Whether a constant fits the keywords beside it.
bool RuleMaker::fits(const FlatSchema& schema, const ordered_json& value) const {
  const auto types = types_of(schema);
  const auto allowed = [&](const char* type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  const bool whole =
      value.is_number_integer() || (value.is_number_float() && is_whole(value.get<double>()));
  const bool typed = schema.keywords.contains("type");
  const bool right =
      (value.is_null() && allowed("null")) || (value.is_boolean() && allowed("boolean")) ||
      (value.is_number() && (allowed("number") || (whole && allowed("integer")))) ||
      (value.is_string() && allowed("string")) || (value.is_array() && allowed("array")) ||
      (value.is_object() && allowed("object"));
  if (typed && !right) return false;
  const bool alone = std::all_of(schema.keywords.items().begin(), schema.keywords.items().end(),
                                 [](const auto& item) { return is_value_keyword(item.key()); });
  if (alone) return true;
  if (value.is_number()) return number_automaton(schema, false).accepts(json_text(value));
  if (value.is_string()) return string_automaton(schema).accepts(json_text(value));
  if (value.is_array() || value.is_object()) {
    fail_usage(
        "{}: arrays and objects in 'enum' or 'const' cannot be enforced beside others of "
        "their keywords",
        schema.path);
  }
  return true;
}

Nfa::Fragment RuleMaker::of_type(Nfa& nfa, const FlatSchema& schema, const std::string& type) {
  if (type == "null") return nfa.literal("null");
  if (type == "boolean") return nfa.either({nfa.literal("true"), nfa.literal("false")});
  if (type == "array") return array(nfa, schema);
  if (type == "object") return object(nfa, schema);
  if (type == "string") {
    if (constrains_strings(schema)) return nfa.embed(string_automaton(schema));
    return nfa.symbol(
        shared("string", [](Nfa& own) { return string_of_length(own, 0, kUnlimited); }));
  }
  const bool integer = type == "integer";
  if (constrains_numbers(schema)) return nfa.embed(number_automaton(schema, integer));
  return nfa.symbol(
      shared(type, [&](Nfa& own) { return own.embed(numbers({.integer = integer})); }));
}

Nfa::Fragment RuleMaker::array(Nfa& nfa, const FlatSchema& schema) {
  const ordered_json& keywords = schema.keywords;
  if (keywords.contains("additionalItems")) {
    fail_usage("{}: 'additionalItems' cannot be enforced; 'prefixItems' and 'items' can",
               schema.path);
  }
  const auto [least, most] = counts(schema, "minItems", "maxItems");
  std::vector<Symbol> first;
  if (const auto list = keywords.find("prefixItems"); list != keywords.end()) {
    if (!list->is_array()) fail_usage("{}: 'prefixItems' must be an array", schema.path);
    for (const ordered_json& item : *list) {
      first.push_back(
          value(item, path_below(schema.path, "prefixItems", std::to_string(first.size()))));
    }
  }
  const ordered_json anything = true;
  const auto items = keywords.find("items");
  const ordered_json& item = items == keywords.end() ? anything : *items;
  if (item.is_array()) fail_usage("{}: 'items' must be a schema", schema.path);
  const Symbol other = value(item, path_below(schema.path, "items"));
  const auto item_at = [&](int64_t i) {
    return i < std::ssize(first) ? first[static_cast<size_t>(i)] : other;
  };

  // After so many items the array may end, or a comma and another item follow.
  const Fragment close = nfa.sequence({blanks(nfa), nfa.symbol(']')});
  const Fragment open = nfa.sequence({nfa.symbol('['), blanks(nfa)});
  if (least == 0) nfa.add_empty(open.end, close.begin);
  int32_t at = open.end;
  const int64_t distinct = std::max<int64_t>({least, std::ssize(first), 1});
  for (int64_t count = 1; most == kUnlimited ? count <= distinct : count <= most; ++count) {
    const Fragment next = nfa.symbol(item_at(count - 1));
    if (count > 1) {
      const Fragment comma = nfa.sequence({nfa.symbol(','), blanks(nfa)});
      nfa.add_empty(at, comma.begin);
      at = comma.end;
    }
    nfa.add_empty(at, next.begin);
    at = next.end;
    if (count >= least) nfa.add_empty(at, close.begin);
  }
  if (most == kUnlimited) {
    const Fragment more = nfa.sequence({nfa.symbol(','), blanks(nfa), nfa.symbol(other)});
    nfa.add_empty(at, more.begin);
    nfa.add_empty(more.end, at);
  }
  return {open.begin, close.end};
}

// In the order of the schema; what is required and not described comes last.
std::vector<RuleMaker::Property> RuleMaker::properties(const FlatSchema& schema) {
  const ordered_json& keywords = schema.keywords;
  std::vector<Property> all;
  std::vector<std::string> required;
  if (const auto list = keywords.find("required"); list != keywords.end()) {
    if (!list->is_array()) fail_usage("{}: 'required' must be an array", schema.path);
    for (const ordered_json& name : *list) {
      if (!name.is_string()) fail_usage("{}: 'required' must hold strings", schema.path);
      required.push_back(name.get<std::string>());
    }
  }
  const auto is_required = [&](const std::string& name) {
    return std::find(required.begin(), required.end(), name) != required.end();
  };
  if (const auto list = keywords.find("properties"); list != keywords.end()) {
    if (!list->is_object()) fail_usage("{}: 'properties' must be an object", schema.path);
    for (const auto& [name, property] : list->items()) {
      all.push_back(
          {name, value(property, path_below(schema.path, "properties", name)), is_required(name)});
    }
  }
  const ordered_json others = keywords.value("additionalProperties", ordered_json(true));
  for (const std::string& name : required) {
    const bool described =
        std::any_of(all.begin(), all.end(), [&](const Property& p) { return p.name == name; });
    if (described) continue;
    all.push_back({name, value(others, path_below(schema.path, "additionalProperties")), true});
  }
  return all;
}

Nfa::Fragment RuleMaker::object(Nfa& nfa, const FlatSchema& schema) {
  const std::vector<Property> all = properties(schema);
  std::optional<Symbol> others;
  const auto more = schema.keywords.find("additionalProperties");
  if (more != schema.keywords.end()) {
    if (*more != false) others = value(*more, path_below(schema.path, "additionalProperties"));
  } else if (!schema.keywords.contains("properties")) {
    others = value(ordered_json(true), schema.path);
  }
  return nfa.sequence({nfa.symbol('{'), blanks(nfa), members(nfa, all, others)});
}

// Each member in its turn or, where it is not required, not at all; then others, each any number
// of times. `fresh` and `after` are the places before a member when nothing or something was
// written, `comma` that behind a comma.
Nfa::Fragment RuleMaker::members(Nfa& nfa, const std::vector<Property>& all,
                                 std::optional<Symbol> others) {
  const Fragment close = nfa.sequence({blanks(nfa), nfa.symbol('}')});
  const int32_t begin = nfa.add_state();
  int32_t fresh = begin;
  int32_t after = nfa.add_state();
  int32_t comma = nfa.add_state();
  const auto separate = [&](int32_t from, int32_t to) {
    const Fragment separator = nfa.sequence({nfa.symbol(','), blanks(nfa)});
    nfa.add_empty(from, separator.begin);
    nfa.add_empty(separator.end, to);
  };
  const auto member = [&](Fragment name, Symbol value) {
    return nfa.sequence({name, nfa.symbol(':'), nfa.repeat([&] { return nfa.symbol(' '); }, 0, 1),
                         nfa.symbol(value)});
  };
  for (const Property& property : all) {
    separate(after, comma);
    const Fragment one =
        member(nfa.literal(json_text(ordered_json(property.name))), property.value);
    nfa.add_empty(fresh, one.begin);
    nfa.add_empty(comma, one.begin);
    const int32_t next_fresh = nfa.add_state();
    const int32_t next_after = nfa.add_state();
    const int32_t next_comma = nfa.add_state();
    nfa.add_empty(one.end, next_after);
    if (!property.required) {
      nfa.add_empty(fresh, next_fresh);
      nfa.add_empty(after, next_after);
      nfa.add_empty(comma, next_comma);
    }
    fresh = next_fresh;
    after = next_after;
    comma = next_comma;
  }
  if (others) {
    separate(after, comma);
    const Fragment one = member(other_name(nfa, all), *others);
    nfa.add_empty(fresh, one.begin);
    nfa.add_empty(comma, one.begin);
    nfa.add_empty(one.end, after);
  }
  nfa.add_empty(fresh, close.begin);
  nfa.add_empty(after, close.begin);
  return {begin, close.end};
}

// A name that is none of the described ones, however it is spelled.
Nfa::Fragment RuleMaker::other_name(Nfa& nfa, const std::vector<Property>& all) {
  if (all.empty()) {
    return nfa.symbol(
        shared("string", [](Nfa& own) { return string_of_length(own, 0, kUnlimited); }));
  }
  Nfa own;
  std::vector<Fragment> names;
  for (const Property& property : all) {
    names.push_back(own.literal(json_text(ordered_json(property.name))));
  }
  return nfa.embed(subtract(canonical_string(), own.determinise(own.either(names))));
}

}  // namespace fathom::grammar
