#include "grammar/schema.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "grammar/schema_merge.h"

namespace fathom::grammar {
namespace {

using nlohmann::ordered_json;

constexpr int kDeepest = 64;
constexpr size_t kMostAlternatives = 1000;

// What says something about values without constraining them, and what is handled by itself.
constexpr std::array<std::string_view, 21> kIgnored = {
    "$schema",    "$id",      "$comment",    "$defs",           "definitions",
    "$anchor",    "title",    "description", "default",         "examples",
    "deprecated", "readOnly", "writeOnly",   "contentEncoding", "contentMediaType",
    "$ref",       "allOf",    "anyOf",       "oneOf",           "example",
    "strict"};

struct Keyword {
  std::string_view name;
  std::string_view type;  // of the values that it speaks of; "": all
};
constexpr std::array<Keyword, 23> kKeywords = {{{"type", ""},
                                                {"enum", ""},
                                                {"const", ""},
                                                {"nullable", ""},
                                                {"minimum", "number"},
                                                {"maximum", "number"},
                                                {"exclusiveMinimum", "number"},
                                                {"exclusiveMaximum", "number"},
                                                {"multipleOf", "number"},
                                                {"minLength", "string"},
                                                {"maxLength", "string"},
                                                {"pattern", "string"},
                                                {"format", "string"},
                                                {"items", "array"},
                                                {"prefixItems", "array"},
                                                {"additionalItems", "array"},
                                                {"minItems", "array"},
                                                {"maxItems", "array"},
                                                {"uniqueItems", "array"},
                                                {"properties", "object"},
                                                {"required", "object"},
                                                {"additionalProperties", "object"},
                                                {"patternProperties", "object"}}};

const Keyword* known(const std::string& name) {
  const auto at = std::find_if(kKeywords.begin(), kKeywords.end(),
                               [&](const Keyword& keyword) { return keyword.name == name; });
  return at == kKeywords.end() ? nullptr : &*at;
}

// A keyword that changes nothing as it stands.
bool says_nothing(const std::string& name, const ordered_json& value) {
  if (name == "uniqueItems" || name == "nullable") return value == false;
  if (name == "patternProperties") return value.is_object() && value.empty();
  if (name == "minProperties") return value == 0;
  return false;
}

// The keywords of one schema object that stand beside references and alternatives.
FlatSchema own_keywords(const ordered_json& schema, const std::string& path) {
  FlatSchema flat{ordered_json::object(), path};
  for (const auto& [name, value] : schema.items()) {
    if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end()) continue;
    if (name.starts_with("x-") || says_nothing(name, value)) continue;
    const bool refused = known(name) == nullptr || name == "uniqueItems" ||
                         name == "patternProperties" || name == "nullable";
    if (refused) fail_usage("{}: '{}' cannot be enforced", path, name);
    flat.keywords[name] = value;
  }
  return flat;
}

std::vector<FlatSchema> combine(const std::vector<FlatSchema>& left,
                                const std::vector<FlatSchema>& right, const std::string& path) {
  std::vector<FlatSchema> all;
  for (const FlatSchema& a : left) {
    for (const FlatSchema& b : right) {
      if (auto merged = merge(a, b)) all.push_back(std::move(*merged));
      if (all.size() > kMostAlternatives) {
        fail_usage("{}: there are more than {} alternatives", path, kMostAlternatives);
      }
    }
  }
  return all;
}

const ordered_json& list_at(const ordered_json& schema, const std::string& keyword,
                            const std::string& path) {
  const ordered_json& list = schema[keyword];
  if (!list.is_array() || list.empty()) {
    fail_usage("{}: '{}' must be an array that is not empty", path, keyword);
  }
  return list;
}

}  // namespace

std::string path_below(const std::string& path, const std::string& keyword,
                       const std::string& member) {
  return path + "/" + keyword + (member.empty() ? "" : "/" + member);
}

std::vector<std::string> types_of(const FlatSchema& schema) {
  const ordered_json& keywords = schema.keywords;
  std::vector<std::string> types;
  constexpr std::array<std::string_view, 7> kAll = {"null",   "boolean", "integer", "number",
                                                    "string", "array",   "object"};
  const auto add = [&](const std::string& type) {
    if (std::find(kAll.begin(), kAll.end(), type) == kAll.end()) {
      fail_usage("{}: '{}' is no type", schema.path, type);
    }
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  };
  if (const auto type = keywords.find("type"); type != keywords.end()) {
    const ordered_json list = type->is_array() ? *type : ordered_json::array({*type});
    for (const ordered_json& one : list) {
      if (!one.is_string()) fail_usage("{}: 'type' must be a string or strings", schema.path);
      add(one.get<std::string>());
    }
    return types;
  }
  for (const auto& [name, value] : keywords.items()) {
    const Keyword* keyword = known(name);
    if (keyword != nullptr && !keyword->type.empty()) add(std::string(keyword->type));
  }
  if (!types.empty()) return types;
  return {"null", "boolean", "number", "string", "array", "object"};
}

std::vector<FlatSchema> SchemaReader::alternatives(const ordered_json& schema,
                                                   const std::string& path) const {
  return expand(schema, path, 0);
}

std::vector<FlatSchema> SchemaReader::expand(const ordered_json& schema, const std::string& path,
                                             int depth) const {
  if (depth > kDeepest) fail_usage("{}: the schema refers to itself without end", path);
  if (schema == true) return {FlatSchema{ordered_json::object(), path}};
  if (schema == false) return {};
  if (!schema.is_object()) fail_usage("{}: a schema must be an object, true or false", path);
  std::vector<FlatSchema> all{own_keywords(schema, path)};
  if (schema.contains("$ref")) {
    const ordered_json& target = resolve(schema["$ref"], path);
    all = combine(all, expand(target, schema["$ref"].get<std::string>(), depth + 1), path);
  }
  if (schema.contains("allOf")) {
    const ordered_json& list = list_at(schema, "allOf", path);
    for (size_t i = 0; i < list.size(); ++i) {
      all = combine(all, expand(list[i], path_below(path, "allOf", std::to_string(i)), depth + 1),
                    path);
    }
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema.contains(keyword)) continue;
    const ordered_json& list = list_at(schema, keyword, path);
    std::vector<std::vector<FlatSchema>> groups;
    std::vector<FlatSchema> any;
    for (size_t i = 0; i < list.size(); ++i) {
      auto group = combine(
          all, expand(list[i], path_below(path, keyword, std::to_string(i)), depth + 1), path);
      any.insert(any.end(), group.begin(), group.end());
      groups.push_back(std::move(group));
    }
    if (std::string_view(keyword) == "oneOf") check_exclusive(groups, path);
    all = std::move(any);
  }
  return all;
}

const ordered_json& SchemaReader::resolve(const ordered_json& reference,
                                          const std::string& path) const {
  if (!reference.is_string()) fail_usage("{}: '$ref' must be a string", path);
  const auto& text = reference.get_ref<const std::string&>();
  if (!text.starts_with('#')) {
    fail_usage("{}: '$ref': '{}' is outside of the schema", path, text);
  }
  try {
    return root_.at(ordered_json::json_pointer(text.substr(1)));
  } catch (const ordered_json::exception&) {
    fail_usage("{}: '$ref': there is no '{}'", path, text);
  }
}

}  // namespace fathom::grammar
