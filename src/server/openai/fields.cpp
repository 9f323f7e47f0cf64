#include "server/openai/fields.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/openai/api_error.h"

namespace fathom::server {

using json = nlohmann::ordered_json;

Fields::Fields(const json& body) : body_(body) {
  if (!body.is_object()) throw ApiError(400, "body: it is not an object", {});
}

const json* Fields::find(const char* name) {
  seen_.insert(name);
  const auto at = body_.find(name);
  return at == body_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<double> Fields::number(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_field(name, "it is not a number");
  return value->get<double>();
}

std::optional<int64_t> Fields::integer(const char* name, int64_t least, int64_t most) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) refuse_field(name, "it is not a whole number");
  const bool huge =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (huge || value->get<int64_t>() < least || value->get<int64_t>() > most) {
    refuse_field(name, "{} is not between {} and {}", value->dump(), least, most);
  }
  return value->get<int64_t>();
}

bool Fields::boolean(const char* name, bool otherwise) {
  const json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse_field(name, "it is neither true nor false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_field(name, "it is not a string");
  return value->get<std::string>();
}

void Fields::refuse_unless(const char* name, const std::vector<json>& harmless) {
  const json* value = find(name);
  if (value == nullptr) return;
  if (std::find(harmless.begin(), harmless.end(), *value) == harmless.end()) {
    refuse_field(name, "not supported here");
  }
}

void Fields::refuse_others(const std::vector<std::string_view>& harmless) const {
  for (const auto& [name, value] : body_.items()) {
    if (value.is_null() || seen_.contains(name)) continue;
    if (std::find(harmless.begin(), harmless.end(), name) != harmless.end()) continue;
    refuse_field(name, "this field is not known here, and might change the result");
  }
}

std::vector<int32_t> token_ids(const json& value, const std::string& name) {
  if (!value.is_array()) refuse_field(name, "it is not an array of token ids");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      refuse_field(name, "{} is not a token id",
                   id.dump(-1, ' ', false, json::error_handler_t::replace));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace fathom::server
