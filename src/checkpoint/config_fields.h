// Typed access to the members of a JSON object that collects what is wrong instead of stopping at
// the first problem.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

struct IntRange {
  int64_t least = 0;
  int64_t most = 0;
};
struct NumberRange {
  double least = 0;
  double most = 0;
  bool open_below = false;  // `least` itself is excluded
};

class ConfigFields {
 public:
  // `prefix` is put before field names in problems ("rope_scaling."). Both references must outlive
  // this object.
  ConfigFields(const nlohmann::json& object, std::string prefix, std::vector<std::string>* problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  // Absent and null are the same: a field without a value.
  const nlohmann::json* value(std::string_view name) const;
  // True for null too, for fields where null has a meaning of its own.
  bool has(std::string_view name) const { return object_.contains(std::string(name)); }

  // Empty where the field has no value; a value of the wrong type or out of range is a problem.
  std::optional<int64_t> optional_int(std::string_view name, IntRange range);
  std::optional<double> optional_number(std::string_view name, NumberRange range);
  std::optional<bool> optional_bool(std::string_view name);
  std::optional<std::string> optional_string(std::string_view name);

  // A field without a value is a problem too.
  int64_t required_int(std::string_view name, IntRange range);
  double required_number(std::string_view name, NumberRange range);

  // The value, where given, must be one of `known`.
  void require_one_of(std::string_view name, const std::vector<std::string>& known);

  template <typename... Args>
  void problem(std::string_view name, fmt::format_string<Args...> text, Args&&... args) {
    add(name, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  void add(std::string_view name, const std::string& what);

  const nlohmann::json& object_;
  std::string prefix_;
  std::vector<std::string>* problems_;
};

// "3", "true", "'yarn'", "a list": a value as it may stand in a message.
std::string shown(const nlohmann::json& value);

}  // namespace fathom
