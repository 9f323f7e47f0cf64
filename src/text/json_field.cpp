#include "text/json_field.h"

#include <nlohmann/json.hpp>

namespace fathom {
namespace {

using nlohmann::json;

// The value where it is short.
std::string shown(const json& value) {
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

}  // namespace

bool JsonField::is_null() const { return value_->is_null(); }

JsonField JsonField::member(std::string_view name) const {
  static const json kNull;
  require(value_->is_object(), "an object");
  const auto found = value_->find(name);
  JsonField field(found == value_->end() ? kNull : *found, *file_);
  field.name_ = name_.empty() ? std::string(name) : name_ + "." + std::string(name);
  return field;
}

JsonField JsonField::element(size_t index) const {
  JsonField field((*value_)[index], *file_);
  field.name_ = fmt::format("{}[{}]", name_, index);
  return field;
}

size_t JsonField::elements() const {
  require(value_->is_array(), "an array");
  return value_->size();
}

const std::string& JsonField::text() const {
  require(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonField::flag(bool otherwise) const {
  if (is_null()) return otherwise;
  require(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

int64_t JsonField::integer(int64_t low, int64_t high) const {
  require(value_->is_number_integer(), "an integer");
  const bool beyond = value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX;
  const auto number = value_->get<int64_t>();
  if (beyond || number < low || number > high) {
    refuse("{} is not in {}..{}", shown(*value_), low, high);
  }
  return number;
}

void JsonField::require(bool met, std::string_view kind) const {
  if (met) return;
  if (is_null()) refuse("is missing; {} expected", kind);
  refuse("{} expected, found {}", kind, shown(*value_));
}

}  // namespace fathom
