// One line on a terminal that says how far something long has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace fathom {

enum class ProgressUnit { items, bytes };

// The text of such a line, at most `columns` wide. A total of 0 means that it is not known.
struct ProgressState {
  std::string label;
  uint64_t done = 0;
  uint64_t total = 0;
  ProgressUnit unit = ProgressUnit::items;
  double seconds = 0;  // since it began
};
std::string progress_line(const ProgressState& state, int columns);

// Draws "label [=====   ] 1.2 of 4.9 GiB, 830 MiB/s, 5 s left" on stderr, at most ten times a
// second, only where stderr is a terminal and progress is not switched off. Erased when it ends.
// Each object belongs to one thread.
class Progress {
 public:
  Progress(std::string label, uint64_t total, ProgressUnit unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(uint64_t done);
  void add(uint64_t more) { set(state_.done + more); }
  void set_label(std::string label) { state_.label = std::move(label); }

  static void enable(bool on);  // --quiet and --json switch it off
  // Takes a drawn line away, so that other text can be written to stderr; any thread may call it.
  static void clear_line();

 private:
  void draw();

  ProgressState state_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace fathom
