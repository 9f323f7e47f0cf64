#include "text/pre_tokenizer.h"

namespace fathom {
namespace {

// One text on its way through the steps. Every step hands its pieces straight to the next.
class Run {
 public:
  Run(const std::vector<PreTokenizerStep>& steps, Pattern::Scratch& scratch, PieceSink& sink)
      : steps_(steps), scratch_(scratch), sink_(sink) {}

  void step(size_t index, std::string_view text, bool lasting) {
    if (text.empty()) return;
    if (index == steps_.size()) return sink_.piece(text, lasting);
    if (!steps_[index].split) return prefix_space(index, text, lasting);
    Splitter splitter{*this, *steps_[index].split, index + 1, text, lasting};
    splitter.run();
  }

 private:
  struct Splitter {
    Run& owner;
    const SplitStep& split;
    size_t next;
    std::string_view text;
    bool lasting;
    // A stretch that may still grow: for the behaviours that join matches and gaps.
    size_t held_begin = 0;
    size_t held_end = 0;
    bool holds = false;
    bool held_is_match = false;

    void run() {
      size_t at = 0;  // everything before is handed on
      split.matcher.for_each(text, owner.scratch_, [&](const Pattern::Match& match) {
        stretch(at, match.begin, false);
        stretch(match.begin, match.end, true);
        at = match.end;
      });
      stretch(at, text.size(), false);
      release();
    }

    void emit(size_t begin, size_t end) {
      owner.step(next, text.substr(begin, end - begin), lasting);
    }

    void release() {
      if (holds) emit(held_begin, held_end);
      holds = false;
    }

    void hold(size_t begin, size_t end, bool is_match) {
      release();
      held_begin = begin;
      held_end = end;
      holds = true;
      held_is_match = is_match;
    }

    // A match, or a gap between matches. An empty gap is none; an empty match still separates.
    void stretch(size_t begin, size_t end, bool matched) {
      if (!matched && begin == end) return;
      const bool is_match = matched != split.invert;
      switch (split.behavior) {
        case SplitBehavior::isolated:
          emit(begin, end);
          return;
        case SplitBehavior::removed:
          if (!is_match) emit(begin, end);
          return;
        case SplitBehavior::contiguous:
          if (holds && held_is_match == is_match) {
            held_end = end;
          } else {
            hold(begin, end, is_match);
          }
          return;
        case SplitBehavior::merged_with_previous:
          // Only the first of neighbouring matches joins the gap before it.
          if (is_match && holds && !held_is_match) {
            held_end = end;
            held_is_match = true;
          } else {
            hold(begin, end, is_match);
          }
          return;
        case SplitBehavior::merged_with_next:
          // Only the last of neighbouring matches joins the gap after it.
          if (!is_match && holds && held_is_match) {
            held_end = end;
            held_is_match = false;
          } else {
            hold(begin, end, is_match);
          }
          return;
      }
    }
  };

  void prefix_space(size_t index, std::string_view text, bool lasting) {
    if (text.front() == ' ') return step(index + 1, text, lasting);
    const std::string prefixed = ' ' + std::string(text);
    step(index + 1, prefixed, false);
  }

  const std::vector<PreTokenizerStep>& steps_;
  Pattern::Scratch& scratch_;
  PieceSink& sink_;
};

}  // namespace

void PreTokenizer::run(std::string_view text, Pattern::Scratch& scratch, PieceSink& sink) const {
  Run(steps_, scratch, sink).step(0, text, true);
}

}  // namespace fathom
