#include "checkpoint/config_fields.h"

#include <algorithm>

#include "base/join.h"
#include "base/json_sax.h"

namespace fathom {

std::string shown(const nlohmann::json& value) {
  if (value.is_string()) return quoted_for_message(value.get_ref<const std::string&>(), 60);
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump();
}

void ConfigFields::add(std::string_view name, const std::string& what) {
  problems_->push_back(fmt::format("{}{}: {}", prefix_, name, what));
}

const nlohmann::json* ConfigFields::value(std::string_view name) const {
  const auto member = object_.find(std::string(name));
  return member == object_.end() || member->is_null() ? nullptr : &*member;
}

std::optional<int64_t> ConfigFields::optional_int(std::string_view name, IntRange range) {
  const nlohmann::json* found = value(name);
  if (found == nullptr) return std::nullopt;
  // 1e4 and 3.0 are fractions to JSON and may be rounded; they are refused like text.
  if (!found->is_number_integer()) {
    problem(name, "a whole number is expected, not {}", shown(*found));
    return std::nullopt;
  }
  const bool too_large =
      found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_large ? INT64_MAX : found->get<int64_t>();
  if (number < range.least || number > range.most) {
    problem(name, "{} is not between {} and {}", shown(*found), range.least, range.most);
    return std::nullopt;
  }
  return number;
}

std::optional<double> ConfigFields::optional_number(std::string_view name, NumberRange range) {
  const nlohmann::json* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_number()) {
    problem(name, "a number is expected, not {}", shown(*found));
    return std::nullopt;
  }
  const double number = found->get<double>();
  if (number < range.least || number > range.most || (range.open_below && number == range.least)) {
    problem(name, "{} is not {} {} and at most {}", shown(*found),
            range.open_below ? "above" : "at least", range.least, range.most);
    return std::nullopt;
  }
  return number;
}

std::optional<bool> ConfigFields::optional_bool(std::string_view name) {
  const nlohmann::json* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) {
    problem(name, "true or false is expected, not {}", shown(*found));
    return std::nullopt;
  }
  return found->get<bool>();
}

std::optional<std::string> ConfigFields::optional_string(std::string_view name) {
  const nlohmann::json* found = value(name);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) {
    problem(name, "a string is expected, not {}", shown(*found));
    return std::nullopt;
  }
  return found->get<std::string>();
}

int64_t ConfigFields::required_int(std::string_view name, IntRange range) {
  if (value(name) == nullptr) add(name, "is missing");
  return optional_int(name, range).value_or(0);
}

double ConfigFields::required_number(std::string_view name, NumberRange range) {
  if (value(name) == nullptr) add(name, "is missing");
  return optional_number(name, range).value_or(0);
}

void ConfigFields::require_one_of(std::string_view name, const std::vector<std::string>& known) {
  const std::optional<std::string> given = optional_string(name);
  if (!given || std::find(known.begin(), known.end(), *given) != known.end()) return;
  problem(name, "{} is not supported; supported: {}", quoted_for_message(*given, 60),
          join(known, ", "));
}

}  // namespace fathom
