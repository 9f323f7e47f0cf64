#include "base/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <utility>

#include "base/system.h"
#include "base/units.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 5;

std::atomic<bool> enabled{true};
// There is one line at the bottom of a terminal, whoever draws it.
std::mutex line_mutex;
bool line_drawn = false;

void erase_line() {  // line_mutex is held
  if (!line_drawn) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  line_drawn = false;
}

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

// Columns that UTF-8 text takes where every character takes one.
int width_of(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to(const std::string& text, int columns) {
  size_t end = 0;
  for (int seen = 0; end < text.size(); ++end) {
    if (begins_character(text[end]) && ++seen > columns) break;
  }
  return text.substr(0, end);
}

// "1.2 GiB of 4.9 GiB, 830 MiB/s, 5 s left"
std::string numbers_of(const ProgressState& state) {
  const bool bytes = state.unit == ProgressUnit::bytes;
  const auto amount = [bytes](uint64_t n) { return bytes ? format_size(n) : std::to_string(n); };
  std::string text = amount(state.done);
  if (state.total > 0) text += " of " + amount(state.total);
  if (state.done == 0 || state.seconds <= 0) return text;
  const double rate = static_cast<double>(state.done) / state.seconds;
  text += bytes ? ", " + format_size(static_cast<uint64_t>(rate)) + "/s"
                : fmt::format(", {:.{}f}/s", rate, rate < 10 ? 1 : 0);
  if (state.total > state.done) {
    const double left = static_cast<double>(state.total - state.done) / rate;
    text += ", " + format_duration(left) + " left";
  }
  return text;
}

}  // namespace

std::string progress_line(const ProgressState& state, int columns) {
  const std::string numbers = numbers_of(state);
  const int room = columns - width_of(state.label) - width_of(numbers) - 4;  // spaces and brackets
  if (state.total == 0 || room < kNarrowestBar) {
    return cut_to(state.label + " " + numbers, columns);
  }
  const int bar = std::min(room, kWidestBar);
  const double share = std::min(1.0, static_cast<double>(state.done) / state.total);
  const int filled = static_cast<int>(share * bar);
  return state.label + " [" + std::string(filled, '=') + std::string(bar - filled, ' ') + "] " +
         numbers;
}

Progress::Progress(std::string label, uint64_t total, ProgressUnit unit)
    : state_{.label = std::move(label), .total = total, .unit = unit},
      began_(Clock::now()),
      drawn_(began_) {}

Progress::~Progress() { clear_line(); }

void Progress::set(uint64_t done) {
  state_.done = done;
  // The first line also waits its turn, so that what is short shows none.
  if (Clock::now() - drawn_ >= kBetweenDraws) draw();
}

void Progress::enable(bool on) { enabled = on; }

void Progress::clear_line() {
  const std::lock_guard lock(line_mutex);
  erase_line();
}

void Progress::draw() {
  drawn_ = Clock::now();
  if (!enabled || !system::stderr_is_terminal()) return;
  state_.seconds = std::chrono::duration<double>(drawn_ - began_).count();
  // A line that fills the last column would wrap.
  const std::string line = progress_line(state_, system::terminal_columns() - 1);
  const std::lock_guard lock(line_mutex);
  std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
  std::fflush(stderr);
  line_drawn = true;
}

}  // namespace fathom
