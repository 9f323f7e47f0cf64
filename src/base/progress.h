// One line on a terminal that says how far something long has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fathom {

enum class ProgressUnit { items, bytes };

// Draws "label [=====   ] 1.2 of 4.9 GiB, 830 MiB/s, 5 s left" on stderr, at most ten times a
// second, only where stderr is a terminal and progress is not switched off. Erased when it ends.
class Progress {
 public:
  Progress(std::string label, uint64_t total, ProgressUnit unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(uint64_t done);
  void add(uint64_t more) { set(done_ + more); }

  static void enable(bool on);  // --quiet and --json switch it off

 private:
  void draw();

  std::string label_;
  uint64_t total_;
  uint64_t done_ = 0;
  ProgressUnit unit_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace fathom
