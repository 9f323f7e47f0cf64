#include "graph/profile.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"

namespace fathom {
namespace {

constexpr size_t kShown = 6;

// "MatMul on CPUExecutionProvider" -> microseconds.
using Times = std::map<std::string, double>;

std::string largest(const Times& times, double total, const std::string& unit) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, time] : times) sorted.emplace_back(time, name);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> parts;
  for (const auto& [time, name] : sorted) {
    if (parts.size() == kShown) {
      parts.push_back(fmt::format("{} others", sorted.size() - kShown));
      break;
    }
    parts.push_back(
        fmt::format("{} {:.1f}{} ({:.0f}%)", name, time, unit, total > 0 ? 100 * time / total : 0));
  }
  return join(parts, ", ");
}

std::string trace_summary(const std::string& text, const std::string& file) {
  const nlohmann::json events = nlohmann::json::parse(text, nullptr, false);
  if (!events.is_array()) fail_input("{}: a list of trace events is expected", file);
  Times times;
  double total = 0;
  int64_t runs = 0;
  for (const nlohmann::json& event : events) {
    if (!event.is_object()) continue;
    const std::string name = event.value("name", "");
    if (name == "model_run") ++runs;
    if (event.value("cat", "") != "Node" || !name.ends_with("_kernel_time")) continue;
    const nlohmann::json args = event.value("args", nlohmann::json::object());
    const double milliseconds = event.value("dur", 0.0) / 1000;
    times[args.value("op_name", "?") + " on " + args.value("provider", "?")] += milliseconds;
    total += milliseconds;
  }
  return fmt::format("{}: {} runs, {:.1f} ms in operators: {}", file, runs, total,
                     largest(times, total, " ms"));
}

// Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier
std::string csv_summary(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  Times times;
  double total = 0;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    if (cells.size() < 7) continue;
    double time = 0;
    const std::string& number = cells[2];
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), time);
    if (error != std::errc()) continue;
    times[cells[6] + " [" + cells[3] + "]"] += time;
    total += time;
  }
  if (times.empty()) fail_input("{}: there are no events in it", file);
  return file + ": " + largest(times, total, "");
}

}  // namespace

std::string profile_summary(const std::string& file) {
  const std::string text = read_text(file);
  if (text.starts_with("Msg Timestamp")) return csv_summary(text, file);
  return trace_summary(text, file);
}

}  // namespace fathom
