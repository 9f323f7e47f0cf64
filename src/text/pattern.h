// Regular expressions of tokenizer files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace fathom {

// Tokenizer files are written for Oniguruma with its Ruby syntax. translate_pattern turns such an
// expression into one that means the same to PCRE2 and refuses, naming the offset, what would mean
// something else. `what` names the expression in errors.
struct TranslatedPattern {
  std::string text;
  std::vector<uint32_t> origin;  // for each byte of text and its end: the offset in the source
};
TranslatedPattern translate_pattern(std::string_view source, const std::string& what);

// A compiled expression. Immutable: any number of threads may use one, each with its own Scratch.
class Pattern {
 public:
  // Error(input) names `what` and the offset at which the expression is wrong.
  Pattern(std::string_view source, const std::string& what);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // What one thread needs while it matches.
  class Scratch {
   public:
    // `text_bytes` is the longest subject to come; the work that one match may take grows with it.
    explicit Scratch(size_t text_bytes);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Pattern;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  struct Match {
    size_t begin;
    size_t end;
  };
  // The first match at or after `from`; false where there is none. `subject` must be valid UTF-8
  // and `from` a character's begin. A match that takes too much work is an Error(input).
  bool find(std::string_view subject, size_t from, Scratch& scratch, Match& match) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A regular expression, or a literal text where there is none.
struct Matcher {
  std::optional<Pattern> pattern;
  std::string literal;  // empty: nothing matches

  // Calls use(match) for every match, in order, none overlapping. An empty match just behind
  // another match is none.
  template <typename Use>
  void for_each(std::string_view text, Pattern::Scratch& scratch, Use&& use) const {
    size_t last_end = std::string_view::npos;
    Pattern::Match match;
    for (size_t from = 0; from <= text.size() && find(text, from, scratch, match);) {
      const bool empty = match.begin == match.end;
      if (!(empty && match.begin == last_end)) use(match);
      from = last_end = match.end;
      if (empty) from += from < text.size() ? unicode::length_of_valid(text[from]) : 1;
    }
  }

 private:
  bool find(std::string_view text, size_t from, Pattern::Scratch& scratch,
            Pattern::Match& match) const {
    if (pattern) return pattern->find(text, from, scratch, match);
    if (literal.empty()) return false;
    const size_t found = text.find(literal, from);
    match = {found, found + literal.size()};
    return found != std::string_view::npos;
  }
};

}  // namespace fathom
