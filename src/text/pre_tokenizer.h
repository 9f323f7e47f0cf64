// Text to the pieces inside which byte-pair merges work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace fathom {

// What becomes of the matches of a splitting pattern.
enum class SplitBehavior {
  removed,
  isolated,  // pieces of their own
  merged_with_previous,
  merged_with_next,
  contiguous,  // neighbouring matches are one piece
};

struct SplitStep {
  Matcher matcher;
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  // what is between the matches takes their part
};
struct PreTokenizerStep {
  std::optional<SplitStep> split;  // without one the step puts a space before pieces that have none
};

// Takes pieces as they are found. `lasting` says that `piece` points into the text itself, not into
// a buffer that the next piece reuses.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void piece(std::string_view piece, bool lasting) = 0;
};

// The steps in order, each splitting what the one before left.
class PreTokenizer {
 public:
  void add(PreTokenizerStep step) { steps_.push_back(std::move(step)); }
  // Pieces in order of the text (valid UTF-8); empty ones are left out.
  void run(std::string_view text, Pattern::Scratch& scratch, PieceSink& sink) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace fathom
