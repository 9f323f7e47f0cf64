#include "sample/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace fathom {
namespace {

// What the text from one place on says about the stop strings.
struct Match {
  bool complete = false;  // a stop string stands here whole
  bool pending = false;   // the text ends before a stop string that begins here has been decided
};

Match match_at(std::string_view rest, const std::vector<std::string>& stops) {
  Match match;
  for (const std::string& stop : stops) {
    if (rest.size() >= stop.size()) {
      match.complete = match.complete || rest.starts_with(stop);
    } else {
      match.pending = match.pending || std::string_view(stop).starts_with(rest);
    }
  }
  return match;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (size_t i = 0; i < stops_.size(); ++i) {
    if (stops_[i].empty()) fail_usage("stop[{}]: a stop string must not be empty", i);
  }
}

StopStrings::Result StopStrings::push(std::string_view text) {
  if (stopped_) return {"", true};
  held_ += text;
  for (size_t at = 0; at < held_.size(); ++at) {
    const Match match = match_at(std::string_view(held_).substr(at), stops_);
    // A pending match at the same place is longer than the complete one, so it completes later; a
    // pending match at an earlier place is waited for, or the result would depend on the cuts.
    if (match.complete) {
      Result result{held_.substr(0, at), true};
      stopped_ = true;
      held_.clear();
      return result;
    }
    if (match.pending) {
      Result result{held_.substr(0, at), false};
      held_.erase(0, at);
      return result;
    }
  }
  return {std::exchange(held_, {}), false};
}

std::string StopStrings::finish() {
  // No more text comes: what was pending is decided against, which can uncover a complete match
  // that began later.
  for (size_t at = 0; at < held_.size(); ++at) {
    if (match_at(std::string_view(held_).substr(at), stops_).complete) {
      held_.erase(at);
      stopped_ = true;
      break;
    }
  }
  return std::exchange(held_, {});
}

}  // namespace fathom
