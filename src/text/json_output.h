// JSON as the program writes it: objects built field by field, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fathom {

// Quoted and escaped; ill-formed UTF-8 (in a file's name, say) becomes U+FFFD.
std::string json_string(std::string_view text);
// The shortest digits that read back as the same number; null where it is not finite.
std::string json_number(double value);
std::string json_array(std::span<const int32_t> values);

class JsonObject {
 public:
  JsonObject& text(std::string_view name, std::string_view value);
  JsonObject& text_or_null(std::string_view name, const std::optional<std::string>& value);
  JsonObject& integer(std::string_view name, int64_t value);
  JsonObject& natural(std::string_view name, uint64_t value);
  JsonObject& number(std::string_view name, std::optional<double> value);
  JsonObject& boolean(std::string_view name, bool value);
  JsonObject& ids(std::string_view name, std::span<const int32_t> values);
  JsonObject& object(std::string_view name, const JsonObject& value);
  // `json` is a JSON value already.
  JsonObject& raw(std::string_view name, std::string_view json);

  std::string str() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

}  // namespace fathom
