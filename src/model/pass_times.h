// Where the time of passes goes.
#pragma once

#include <chrono>

namespace fathom {

// Seconds, summed up.
struct PassTimes {
  double attention = 0;
  double experts = 0;  // routed ones, the router included
  double mlp = 0;      // dense layers and shared experts
  double head = 0;
};

// Adds the time it lives to a sum.
class PartTimer {
 public:
  explicit PartTimer(double* sum) : sum_(sum), began_(std::chrono::steady_clock::now()) {}
  ~PartTimer() {
    *sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }
  PartTimer(const PartTimer&) = delete;
  PartTimer& operator=(const PartTimer&) = delete;

 private:
  double* sum_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace fathom
