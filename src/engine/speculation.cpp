#include "engine/speculation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

namespace fathom {
namespace {

// Passes on each side: at the least, and at the most where the two are close. On a slow disk a pass
// takes many seconds, and there the difference is large.
constexpr int64_t kLeastPasses = 4;
constexpr int64_t kMostPasses = 24;
// Told apart at once by more than this share; at the end drafting must win by the margin.
constexpr double kClear = 0.25;
constexpr double kMargin = 0.02;
constexpr int64_t kTokensUntilNextTrial = 4096;

}  // namespace

SpeculationJudge::SpeculationJudge(Speculation mode, bool has_mtp) : mode_(mode) {
  if (mode == Speculation::off) return;
  if (!has_mtp) {
    mode_ = Speculation::off;
    reason_ = "no MTP layer is loaded";
  } else if (mode == Speculation::on) {
    state_ = State::on;
    reason_ = "asked for";
  } else {
    begin_trial();
  }
}

void SpeculationJudge::begin_trial() {
  state_ = State::trial;
  trial_drafts_ = true;
  trial_sequences_ = 0;
  with_ = {};
  without_ = {};
  reason_ = "not decided yet: too few tokens so far";
}

void SpeculationJudge::record(const DecodePass& pass) {
  if (mode_ != Speculation::automatic) return;
  if (state_ != State::trial) {
    tokens_since_ += pass.tokens;
    if (tokens_since_ >= kTokensUntilNextTrial) begin_trial();
    return;
  }
  // What a token costs depends on the size of the pass: passes of much different size are not
  // compared.
  if (4 * std::abs(pass.sequences - trial_sequences_) > trial_sequences_) {
    begin_trial();
    trial_sequences_ = pass.sequences;
  }
  Side& side = pass.drafted ? with_ : without_;
  ++side.passes;
  side.tokens += pass.tokens;
  // Without drafts the MTP layer would not be computed at all; here it only is so that the next
  // pass can have drafts.
  side.seconds += pass.seconds + (pass.drafted ? pass.mtp_seconds : 0);
  trial_drafts_ = with_.passes <= without_.passes;
  decide();
}

void SpeculationJudge::decide() {
  const int64_t passes = std::min(with_.passes, without_.passes);
  if (passes < kLeastPasses) return;
  const double with = with_.per_token();
  const double without = without_.per_token();
  const bool clear = with < without * (1 - kClear) || with > without * (1 + kClear);
  if (!clear && passes < kMostPasses) return;
  state_ = with < without * (1 - kMargin) ? State::on : State::off;
  tokens_since_ = 0;
  reason_ = fmt::format("measured: {:.4g} ms per token with drafts, {:.4g} ms without", with * 1e3,
                        without * 1e3);
}

void SpeculationJudge::give_up(const std::string& why) {
  mode_ = Speculation::off;
  state_ = State::off;
  reason_ = why;
}

}  // namespace fathom
