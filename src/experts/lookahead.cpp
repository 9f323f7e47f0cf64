#include "experts/lookahead.h"

#include <algorithm>

#include "base/error.h"

namespace fathom {

LookaheadMode lookahead_mode_named(std::string_view name) {
  if (name == "auto") return LookaheadMode::automatic;
  if (name == "on") return LookaheadMode::on;
  if (name == "off") return LookaheadMode::off;
  fail_usage("no lookahead mode '{}': auto, on or off", name);
}

void LookaheadControl::layer_done() {
  if (on_ || mode_ != LookaheadMode::automatic) return;
  if (++paused_ < pause_) return;
  on_ = true;
  in_time_ = late_ = wasted_ = dropped_ = 0;
}

void LookaheadControl::used(bool in_time) {
  ++used_all_;
  ++(in_time ? in_time_ : late_);
  settled();
}

void LookaheadControl::wasted() {
  ++wasted_all_;
  ++wasted_;
  settled();
}

void LookaheadControl::dropped() {
  ++dropped_;
  settled();
}

void LookaheadControl::settled() {
  if (in_time_ + late_ + wasted_ + dropped_ < kWindow) return;
  // A read that was asked for while under way has gained a part of its time.
  const bool wrong = 2 * in_time_ + late_ < 2 * wasted_;
  const bool never_idle = 8 * (in_time_ + late_ + wasted_) < kWindow;
  in_time_ = late_ = wasted_ = dropped_ = 0;
  if (mode_ != LookaheadMode::automatic || !on_) return;
  if (!wrong && !never_idle) {
    pause_ = kFirstPause;
    paused_ = 0;
    return;
  }
  on_ = false;
  // The first pause is the shortest; each attempt that fails again doubles it.
  if (paused_ > 0) pause_ = std::min(2 * pause_, kLongestPause);
  paused_ = 0;
}

}  // namespace fathom
