// A JSON value together with where it stands, so that every complaint names its field.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace fathom {

class JsonField {
 public:
  JsonField(const nlohmann::json& value, const std::string& file) : value_(&value), file_(&file) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    const std::string problem = fmt::format(text, std::forward<Args>(args)...);
    if (name_.empty()) fail_input("{}: {}", *file_, problem);
    fail_input("{}: {}: {}", *file_, name_, problem);
  }

  const std::string& file() const { return *file_; }
  std::string place() const { return *file_ + ": " + name_; }
  const nlohmann::json& value() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // A member; one that is missing reads as null.
  JsonField member(std::string_view name) const {
    static const nlohmann::json kNull;
    require(value_->is_object(), "an object");
    const auto found = value_->find(name);
    return child(found == value_->end() ? kNull : *found,
                 name_.empty() ? std::string(name) : name_ + "." + std::string(name));
  }
  JsonField element(size_t index) const {
    return child((*value_)[index], fmt::format("{}[{}]", name_, index));
  }
  size_t elements() const {
    require(value_->is_array(), "an array");
    return value_->size();
  }

  const std::string& text() const {
    require(value_->is_string(), "a string");
    return value_->get_ref<const std::string&>();
  }
  bool flag(bool otherwise) const {
    if (is_null()) return otherwise;
    require(value_->is_boolean(), "true or false");
    return value_->get<bool>();
  }
  int64_t integer(int64_t low, int64_t high) const {
    require(value_->is_number_integer(), "an integer");
    const bool fits = value_->is_number_unsigned()
                          ? value_->get<uint64_t>() <= static_cast<uint64_t>(high) &&
                                (low <= 0 || value_->get<uint64_t>() >= static_cast<uint64_t>(low))
                          : value_->get<int64_t>() >= low && value_->get<int64_t>() <= high;
    if (!fits) refuse("{} is not in {}..{}", value_->dump(), low, high);
    return value_->get<int64_t>();
  }

 private:
  JsonField child(const nlohmann::json& value, std::string name) const {
    JsonField field(value, *file_);
    field.name_ = std::move(name);
    return field;
  }
  void require(bool met, std::string_view kind) const {
    if (met) return;
    if (is_null()) refuse("is missing; {} expected", kind);
    refuse("{} expected, found {} {}", kind, value_->type_name(), shown());
  }
  // The value where it is short.
  std::string shown() const {
    if (value_->is_structured()) return "";
    std::string text = value_->dump(-1, ' ', true);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }

  const nlohmann::json* value_;
  const std::string* file_;
  std::string name_;
};

}  // namespace fathom
