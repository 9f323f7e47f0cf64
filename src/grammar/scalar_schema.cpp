#include "grammar/scalar_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "grammar/json_text.h"
#include "grammar/pattern.h"

namespace fathom::grammar {
namespace {

using nlohmann::ordered_json;

// A count in a schema is so many copies of a state.
constexpr int64_t kMostCounted = 2048;
constexpr int64_t kMostMultiple = 10'000;

// Formats that are enforced; others are descriptions, as JSON Schema has it.
struct Format {
  std::string_view name;
  std::string_view pattern;
};
#define FATHOM_DATE                                                                               \
  "[12][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-" \
  "(0[1-9]|1[0-9]|2[0-8]))"
#define FATHOM_TIME \
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
constexpr std::array<Format, 6> kFormats = {
    {{"date", "^" FATHOM_DATE "$"},
     {"time", "^" FATHOM_TIME "$"},
     {"date-time", "^" FATHOM_DATE "T" FATHOM_TIME "$"},
     {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
     {"ipv4",
      "^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
      "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$"},
     {"email",
      "^[a-z0-9]+([._+-][a-z0-9]+)*@[a-z0-9]+(-[a-z0-9]+)*(\\.[a-z0-9]+(-[a-z0-9]+)*)+$"}}};
#undef FATHOM_DATE
#undef FATHOM_TIME

const Format* enforced_format(const FlatSchema& schema) {
  const auto at = schema.keywords.find("format");
  if (at == schema.keywords.end()) return nullptr;
  for (const Format& format : kFormats) {
    if (*at == format.name) return &format;
  }
  return nullptr;
}

// A JSON number without exponent.
std::string decimal(const ordered_json& value, const std::string& path, const char* keyword) {
  if (!value.is_number()) fail_usage("{}: '{}' must be a number", path, keyword);
  if (value.is_number_integer()) return value.dump();
  constexpr double kLargest = 1e15;
  constexpr double kSmallest = 1e-9;
  const double number = value.get<double>();
  if (!(std::abs(number) <= kLargest) || (number != 0 && std::abs(number) < kSmallest)) {
    fail_usage("{}: '{}': {} is too large or too small to be enforced", path, keyword, number);
  }
  // The shortest digits that mean this number, written out.
  for (int digits = 0; digits < 30; ++digits) {
    const std::string text = fmt::format("{:.{}f}", number, digits);
    if (std::stod(text) == number) return text;
  }
  fail_usage("{}: '{}': {} cannot be enforced", path, keyword, number);
}

std::optional<std::string> bound(const FlatSchema& schema, const char* keyword) {
  const auto at = schema.keywords.find(keyword);
  if (at == schema.keywords.end()) return std::nullopt;
  return decimal(*at, schema.path, keyword);
}

// The tighter one of an inclusive and an exclusive bound.
void tighten(const FlatSchema& schema, const char* inclusive, const char* exclusive, bool upper,
             std::optional<std::string>* value, bool* excluded) {
  *value = bound(schema, inclusive);
  const auto other = bound(schema, exclusive);
  if (!other) return;
  const bool tighter = !*value || (upper ? std::stod(*other) <= std::stod(**value)
                                         : std::stod(*other) >= std::stod(**value));
  if (!tighter) return;
  *value = other;
  *excluded = true;
}

}  // namespace

bool is_whole(double value) { return std::isfinite(value) && std::floor(value) == value; }

bool constrains_numbers(const FlatSchema& schema) {
  for (const char* keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    if (schema.keywords.contains(keyword)) return true;
  }
  return false;
}

bool constrains_strings(const FlatSchema& schema) {
  for (const char* keyword : {"minLength", "maxLength", "pattern"}) {
    if (schema.keywords.contains(keyword)) return true;
  }
  return enforced_format(schema) != nullptr;
}

Dfa number_automaton(const FlatSchema& schema, bool integer) {
  NumberBounds bounds;
  bounds.integer = integer;
  tighten(schema, "minimum", "exclusiveMinimum", false, &bounds.minimum, &bounds.minimum_excluded);
  tighten(schema, "maximum", "exclusiveMaximum", true, &bounds.maximum, &bounds.maximum_excluded);
  if (const auto of = schema.keywords.find("multipleOf"); of != schema.keywords.end()) {
    if (!of->is_number_integer() || *of < 1 || *of > kMostMultiple) {
      fail_usage("{}: 'multipleOf' is enforced for whole numbers from 1 to {} only", schema.path,
                 kMostMultiple);
    }
    bounds.multiple_of = of->get<int64_t>();
  }
  return numbers(bounds);
}

Dfa string_automaton(const FlatSchema& schema) {
  std::optional<Dfa> all;
  const auto add = [&all](Dfa dfa) { all = all ? intersect(*all, dfa) : std::move(dfa); };
  if (const auto pattern = schema.keywords.find("pattern"); pattern != schema.keywords.end()) {
    if (!pattern->is_string()) fail_usage("{}: 'pattern' must be a string", schema.path);
    add(pattern_string(pattern->get_ref<const std::string&>(), schema.path + "/pattern"));
  }
  if (const Format* format = enforced_format(schema)) {
    add(pattern_string(format->pattern, schema.path + "/format"));
  }
  if (!all || schema.keywords.contains("minLength") || schema.keywords.contains("maxLength")) {
    const auto [least, most] = counts(schema, "minLength", "maxLength");
    Nfa nfa;
    add(nfa.determinise(string_of_length(nfa, least, most)));
  }
  return *all;
}

std::pair<int64_t, int64_t> counts(const FlatSchema& schema, const char* least, const char* most) {
  const auto count = [&](const char* keyword, int64_t otherwise) {
    const auto at = schema.keywords.find(keyword);
    if (at == schema.keywords.end()) return otherwise;
    const bool whole =
        at->is_number_integer() || (at->is_number_float() && is_whole(at->get<double>()));
    if (!whole || *at < 0) {
      fail_usage("{}: '{}' must be a whole number from 0 on", schema.path, keyword);
    }
    return *at > kMostCounted ? kMostCounted + 1 : at->get<int64_t>();
  };
  const int64_t lowest = count(least, 0);
  if (lowest > kMostCounted) {
    fail_usage("{}: '{}' is enforced up to {} only", schema.path, least, kMostCounted);
  }
  const int64_t highest = count(most, kUnlimited);
  return {lowest, std::min(highest, kMostCounted)};
}

}  // namespace fathom::grammar
