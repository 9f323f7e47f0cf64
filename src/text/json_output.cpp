#include "text/json_output.h"

#include <fmt/format.h>

#include <cmath>

#include "text/utf8_stream.h"

namespace fathom {

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : repair_utf8(text)) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string json_array(std::span<const int32_t> values) {
  std::string text = "[";
  for (const int32_t value : values) {
    if (text.size() > 1) text += ',';
    fmt::format_to(std::back_inserter(text), "{}", value);
  }
  return text + "]";
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!fields_.empty()) fields_ += ',';
  fields_ += json_string(name);
  fields_ += ':';
  fields_ += json;
  return *this;
}

JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
  return raw(name, json_string(value));
}
JsonObject& JsonObject::text_or_null(std::string_view name,
                                     const std::optional<std::string>& value) {
  return raw(name, value ? json_string(*value) : "null");
}
JsonObject& JsonObject::integer(std::string_view name, int64_t value) {
  return raw(name, std::to_string(value));
}
JsonObject& JsonObject::natural(std::string_view name, uint64_t value) {
  return raw(name, std::to_string(value));
}
JsonObject& JsonObject::number(std::string_view name, std::optional<double> value) {
  return raw(name, value ? json_number(*value) : "null");
}
JsonObject& JsonObject::boolean(std::string_view name, bool value) {
  return raw(name, value ? "true" : "false");
}
JsonObject& JsonObject::ids(std::string_view name, std::span<const int32_t> values) {
  return raw(name, json_array(values));
}
JsonObject& JsonObject::object(std::string_view name, const JsonObject& value) {
  return raw(name, value.str());
}

}  // namespace fathom
