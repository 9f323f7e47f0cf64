#include "grammar/schema_merge.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fathom::grammar {
namespace {

using nlohmann::ordered_json;

// Types that both allow; an integer is a number.
std::vector<std::string> common_types(const std::vector<std::string>& a,
                                      const std::vector<std::string>& b) {
  std::vector<std::string> common;
  const auto has = [](const std::vector<std::string>& list, const std::string& type) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  for (const std::string& type : a) {
    if (has(b, type) || (type == "integer" && has(b, "number"))) common.push_back(type);
  }
  for (const std::string& type : b) {
    if (type == "integer" && has(a, "number") && !has(common, type)) common.push_back(type);
  }
  return common;
}

ordered_json both(const ordered_json& a, const ordered_json& b) {
  return {{"allOf", ordered_json::array({a, b})}};
}

// The keyword's value for both; none where it cannot be told.
std::optional<ordered_json> merged_value(const std::string& name, const ordered_json& a,
                                         const ordered_json& b) {
  if (name == "minimum" || name == "exclusiveMinimum" || name == "minLength" ||
      name == "minItems") {
    return a < b ? b : a;
  }
  if (name == "maximum" || name == "exclusiveMaximum" || name == "maxLength" ||
      name == "maxItems") {
    return a < b ? a : b;
  }
  if (name == "items" || name == "additionalProperties") return both(a, b);
  if (name == "required" && a.is_array() && b.is_array()) {
    ordered_json all = a;
    for (const ordered_json& one : b) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    }
    return all;
  }
  if (name == "enum" && a.is_array() && b.is_array()) {
    ordered_json common = ordered_json::array();
    for (const ordered_json& one : a) {
      if (std::find(b.begin(), b.end(), one) != b.end()) common.push_back(one);
    }
    return common;
  }
  if (name == "properties" && a.is_object() && b.is_object()) {
    ordered_json all = a;
    for (const auto& [key, value] : b.items()) {
      all[key] = all.contains(key) ? both(all[key], value) : value;
    }
    return all;
  }
  return std::nullopt;
}

// What one side says of properties that it does not name concerns those that only the other names.
bool names_differ(const ordered_json& a, const ordered_json& b) {
  const auto closed = [](const ordered_json& one) {
    const auto at = one.find("additionalProperties");
    return at != one.end() && *at != true;
  };
  const auto names = [](const ordered_json& one) {
    std::vector<std::string> list;
    const auto at = one.find("properties");
    if (at != one.end() && at->is_object()) {
      for (const auto& [key, value] : at->items()) list.push_back(key);
    }
    std::sort(list.begin(), list.end());
    return list;
  };
  const auto a_names = names(a);
  const auto b_names = names(b);
  const auto more = [](const auto& left, const auto& right) {
    return !std::includes(right.begin(), right.end(), left.begin(), left.end());
  };
  return (closed(a) && more(b_names, a_names)) || (closed(b) && more(a_names, b_names));
}

// The constants that a property of an object must have; none where it need not be there.
std::vector<ordered_json> constants(const FlatSchema& schema, const std::string& name) {
  const ordered_json& keywords = schema.keywords;
  const auto required = keywords.find("required");
  if (required == keywords.end() ||
      std::find(required->begin(), required->end(), name) == required->end()) {
    return {};
  }
  const ordered_json& property = keywords["properties"][name];
  if (!property.is_object()) return {};
  if (property.contains("const")) return {property["const"]};
  if (!property.contains("enum")) return {};
  return {property["enum"].begin(), property["enum"].end()};
}

bool overlap(const std::vector<ordered_json>& a, const std::vector<ordered_json>& b) {
  return std::any_of(a.begin(), a.end(), [&](const ordered_json& one) {
    return std::find(b.begin(), b.end(), one) != b.end();
  });
}

std::vector<ordered_json> own_constants(const ordered_json& keywords) {
  if (keywords.contains("const")) return {keywords["const"]};
  if (!keywords.contains("enum")) return {};
  return {keywords["enum"].begin(), keywords["enum"].end()};
}

bool exclusive(const FlatSchema& a, const FlatSchema& b) {
  if (common_types(types_of(a), types_of(b)).empty() && a.keywords.contains("type") &&
      b.keywords.contains("type")) {
    return true;
  }
  const auto a_own = own_constants(a.keywords);
  const auto b_own = own_constants(b.keywords);
  if (!a_own.empty() && !b_own.empty() && !overlap(a_own, b_own)) return true;
  if (types_of(a) != std::vector<std::string>{"object"} || types_of(a) != types_of(b)) return false;
  const auto properties = a.keywords.find("properties");
  if (properties == a.keywords.end() || !b.keywords.contains("properties")) return false;
  for (const auto& [name, value] : properties->items()) {
    if (!b.keywords["properties"].contains(name)) continue;
    const auto left = constants(a, name);
    const auto right = constants(b, name);
    if (!left.empty() && !right.empty() && !overlap(left, right)) return true;
  }
  return false;
}

}  // namespace

std::optional<FlatSchema> merge(const FlatSchema& a, const FlatSchema& b) {
  FlatSchema all{a.keywords, a.keywords.empty() ? b.path : a.path};
  if (a.keywords.empty() || b.keywords.empty()) {
    if (a.keywords.empty()) all.keywords = b.keywords;
    return all;
  }
  if (names_differ(a.keywords, b.keywords)) {
    fail_usage("{}: 'additionalProperties' cannot be enforced together with {}", a.path, b.path);
  }
  if (a.keywords.contains("type") && b.keywords.contains("type")) {
    const auto types = common_types(types_of(a), types_of(b));
    if (types.empty()) return std::nullopt;
    all.keywords["type"] = types;
  }
  for (const auto& [name, value] : b.keywords.items()) {
    const auto at = all.keywords.find(name);
    if (at == all.keywords.end()) {
      all.keywords[name] = value;
    } else if (name == "type" || *at == value) {
      continue;
    } else if (name == "const") {
      return std::nullopt;
    } else if (auto merged = merged_value(name, *at, value)) {
      *at = std::move(*merged);
    } else {
      fail_usage("{}: '{}' cannot be enforced together with that of {}", a.path, name, b.path);
    }
  }
  return all;
}

void check_exclusive(const std::vector<std::vector<FlatSchema>>& groups, const std::string& path) {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const FlatSchema& a : groups[i]) {
        for (const FlatSchema& b : groups[j]) {
          if (exclusive(a, b)) continue;
          fail_usage("{}: 'oneOf' cannot be enforced: a value might fit both {} and {}", path, j,
                     i);
        }
      }
    }
  }
}

}  // namespace fathom::grammar
