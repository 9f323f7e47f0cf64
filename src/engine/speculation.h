// Whether drafting with the MTP layer pays.
#pragma once

#include <cstdint>
#include <string>

#include "fathom/model.h"

namespace fathom {

// One pass in which every sequence was decoding.
struct DecodePass {
  bool drafted = false;    // every sequence had a draft; else none had
  int64_t sequences = 0;   // in it
  int64_t tokens = 0;      // sampled: with drafts up to two per sequence
  double seconds = 0;      // of the pass, sampling included
  double mtp_seconds = 0;  // in the MTP layer after it, for the next drafts
};

// Decides for one loaded model, over all its sequences. `on` and `off` are orders. `automatic`
// measures: passes with and without drafts take turns, so that a change of the machine's speed or
// of the cache's contents meets both alike, until the seconds per token of the two are told apart.
// That one number holds everything that matters: what is read from disk for two rows instead of
// one, the MTP layer's own work, and how many drafts are accepted. A tie is decided against
// drafting. After many tokens the trial is repeated.
class SpeculationJudge {
 public:
  SpeculationJudge(Speculation mode, bool has_mtp);

  Speculation mode() const { return mode_; }
  // Sequences that begin now fill the MTP layer's cache, and those that do go on with it.
  bool fills() const { return state_ != State::off; }
  // The next pass verifies drafts.
  bool drafts() const { return state_ == State::on || (state_ == State::trial && trial_drafts_); }
  void record(const DecodePass& pass);
  // The layer cannot be computed; for good.
  void give_up(const std::string& why);

  bool on() const { return state_ == State::on; }
  // "measured: 12.1 ms per token with drafts, 17.4 ms without"
  const std::string& reason() const { return reason_; }

 private:
  enum class State { off, trial, on };
  struct Side {
    int64_t passes = 0;
    int64_t tokens = 0;
    double seconds = 0;
    double per_token() const { return seconds / static_cast<double>(tokens); }
  };
  void begin_trial();
  void decide();

  Speculation mode_;
  State state_ = State::off;
  bool trial_drafts_ = true;
  int64_t trial_sequences_ = 0;
  Side with_;
  Side without_;
  int64_t tokens_since_ = 0;  // since the last decision
  std::string reason_;
};

}  // namespace fathom
