// Whether reading ahead pays, by what became of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom {

enum class LookaheadMode { automatic, on, off };
// "auto", "on", "off"; Error(usage) for others.
LookaheadMode lookahead_mode_named(std::string_view name);

// `automatic` begins switched on. Experts that were read ahead are counted in groups of kWindow:
// guesses that were wrong delay what is needed, and where the disk is always busy no guess is ever
// read. Either switches it off for a number of layers that doubles with each vain attempt.
class LookaheadControl {
 public:
  static constexpr int64_t kWindow = 256;
  static constexpr int64_t kFirstPause = 512;  // layers
  static constexpr int64_t kLongestPause = 8192;

  explicit LookaheadControl(LookaheadMode mode) : mode_(mode), on_(mode != LookaheadMode::off) {}

  bool on() const { return on_; }
  uint64_t reads() const { return used_all_ + wasted_all_; }
  uint64_t used() const { return used_all_; }

  void layer_done();
  // What became of one expert that was to be read ahead: asked for (and there in time), not asked
  // for, or never begun.
  void used(bool in_time);
  void wasted();
  void dropped();

 private:
  void settled();

  LookaheadMode mode_;
  bool on_;
  int64_t pause_ = kFirstPause;
  int64_t paused_ = 0;  // layers since it was switched off
  // Of the current window.
  int64_t in_time_ = 0;
  int64_t late_ = 0;
  int64_t wasted_ = 0;
  int64_t dropped_ = 0;
  uint64_t used_all_ = 0;
  uint64_t wasted_all_ = 0;
};

}  // namespace fathom
