#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace fathom {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";

// 2^10, 2^20, ... for K, M, ...; 1 for anything else.
uint64_t prefix_value(char letter) {
  const char upper = letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 32) : letter;
  const size_t place = kPrefixes.find(upper);
  return place == std::string_view::npos ? 1 : uint64_t{1} << (10 * (place + 1));
}

// Three significant digits, no more places than that.
std::string short_number(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

uint64_t parse_size(std::string_view text, std::string_view what) {
  const auto refuse = [&](std::string_view why) {
    fail_usage("{}: '{}' is not a size: {}", what, text, why);
  };
  std::string_view number = text;
  const auto drop = [&number](std::string_view suffix) {
    if (!number.ends_with(suffix)) return false;
    number.remove_suffix(suffix.size());
    return true;
  };
  const bool binary = drop("iB");
  if (!binary) drop("B");
  uint64_t unit = 1;
  if (!number.empty() && prefix_value(number.back()) != 1) {
    unit = prefix_value(number.back());
    number.remove_suffix(1);
  } else if (binary) {
    refuse("'iB' needs K, M, G, T, P or E before it");
  }
  while (number.ends_with(' ')) number.remove_suffix(1);
  // from_chars would take a sign, an exponent, "inf" and "nan".
  if (number.empty() || number.find_first_not_of("0123456789.") != std::string_view::npos) {
    refuse("write it like 20G, 512M, 1.5T or a plain number of bytes");
  }
  if (number.find('.') == std::string_view::npos) {
    uint64_t count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (error != std::errc() || end != number.data() + number.size() || count > UINT64_MAX / unit) {
      refuse("too large");
    }
    return count * unit;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) {
    refuse("write it like 20G, 512M, 1.5T or a plain number of bytes");
  }
  if (unit == 1) refuse("a fraction of a byte");
  const double bytes = value * static_cast<double>(unit);
  if (!(bytes < 18446744073709551616.0)) refuse("too large");
  return static_cast<uint64_t>(bytes);
}

std::string format_size(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t prefix = 0;
  value /= 1024;
  // 1023.5 would be shown as 1024 of the smaller unit.
  while (value >= 1023.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1024;
    ++prefix;
  }
  const std::string number = prefix == 0 ? fmt::format("{:.0f}", value) : short_number(value);
  return fmt::format("{} {}iB", number, kPrefixes[prefix]);
}

std::string format_duration(double seconds) {
  if (!(seconds > 0)) return "0.0 s";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e15) return "forever";
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / 60 / 24, minutes / 60 % 24);
}

}  // namespace fathom
