// The fields of a request's body, each checked where it is read. Keys keep their order, which
// models see in the descriptions of tools.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::server {

// null counts as not given. All errors are ApiErrors (400) that name the field.
class Fields {
 public:
  // The body must outlive this.
  explicit Fields(const nlohmann::ordered_json& body);

  // nullptr where it is not given.
  const nlohmann::ordered_json* find(const char* name);
  std::optional<double> number(const char* name);
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most);
  bool boolean(const char* name, bool otherwise);
  std::optional<std::string> text(const char* name);
  // Only these values change nothing.
  void refuse_unless(const char* name, const std::vector<nlohmann::ordered_json>& harmless);
  // What nobody has asked for and is not in `harmless`.
  void refuse_others(const std::vector<std::string_view>& harmless) const;

 private:
  const nlohmann::ordered_json& body_;
  std::set<std::string> seen_;
};

// Token ids in an array; `name` is the field's.
std::vector<int32_t> token_ids(const nlohmann::ordered_json& value, const std::string& name);

}  // namespace fathom::server
