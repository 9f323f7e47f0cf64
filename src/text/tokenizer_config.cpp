#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/json_field.h"
#include "text/tokenizer_file.h"

namespace fathom {
namespace {

// A string, or an added token written out with its flags; null is none.
std::string read_token(const JsonField& field) {
  if (field.is_null()) return "";
  return field.value().is_object() ? field.member("content").text() : field.text();
}

// Files write 1e30 for "no limit". Nothing above this is a length.
constexpr double kMostLength = 1e15;

std::optional<int64_t> read_length(const JsonField& field) {
  if (field.is_null()) return std::nullopt;
  if (!field.value().is_number()) field.refuse("a number expected");
  const auto length = field.value().get<double>();
  if (length > kMostLength) return std::nullopt;
  return field.integer(1, static_cast<int64_t>(kMostLength));
}

// One template, or a list of named ones of which "default" is for chats.
std::string read_template(const JsonField& field) {
  if (field.is_null()) return "";
  if (!field.value().is_array()) return field.text();
  for (size_t i = 0; i < field.elements(); ++i) {
    const JsonField entry = field.element(i);
    const std::string& text = entry.member("template").text();
    if (entry.member("name").text() == "default") return text;
  }
  return "";
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& path) {
  const nlohmann::json document = parse_json(text, path);
  const JsonField root(document, path);
  if (!document.is_object()) root.refuse("an object expected, found {}", document.type_name());
  TokenizerConfig config;
  config.bos_token = read_token(root.member("bos_token"));
  config.eos_token = read_token(root.member("eos_token"));
  config.add_bos_token = root.member("add_bos_token").flag(false);
  config.model_max_length = read_length(root.member("model_max_length"));
  config.chat_template = read_template(root.member("chat_template"));
  return config;
}

}  // namespace fathom
