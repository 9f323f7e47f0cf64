// A JSON value together with where it stands, so that every complaint names its field.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace fathom {

// Views into a document and the file's name, which must outlive it.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, const std::string& file) : value_(&value), file_(&file) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail_input("{}: {}", place(), fmt::format(text, std::forward<Args>(args)...));
  }

  const std::string& file() const { return *file_; }
  std::string place() const { return name_.empty() ? *file_ : *file_ + ": " + name_; }
  const nlohmann::json& value() const { return *value_; }
  bool is_null() const;

  // One that is missing reads as null.
  JsonField member(std::string_view name) const;
  JsonField element(size_t index) const;
  // The number of elements of what must be an array.
  size_t elements() const;

  const std::string& text() const;
  bool flag(bool otherwise) const;  // `otherwise` where it is missing
  int64_t integer(int64_t low, int64_t high) const;

 private:
  void require(bool met, std::string_view kind) const;

  const nlohmann::json* value_;
  const std::string* file_;
  std::string name_;
};

}  // namespace fathom
