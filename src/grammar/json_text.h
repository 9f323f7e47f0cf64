// JSON as automata: strings, numbers and blanks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/automaton.h"

namespace fathom::grammar {

// One character of a string, low..high, as UTF-8.
Nfa::Fragment utf8_characters(Nfa& nfa, uint32_t low, uint32_t high);

// One character of a JSON string, low..high, in its shortest spelling: as it is, with a backslash
// where JSON asks for one (\u00xx with small letters where there is no shorter one).
Nfa::Fragment string_characters(Nfa& nfa, uint32_t low, uint32_t high);
// Any character in any spelling; two escaped surrogates are one character.
Nfa::Fragment any_string_character(Nfa& nfa);

// A whole string with its quotes, of so many characters.
Nfa::Fragment string_of_length(Nfa& nfa, int64_t least, int64_t most);
// The shortest spelling of any string.
Dfa canonical_string();

// Blanks between tokens: nothing, a space, or a line break with an indentation.
Nfa::Fragment blanks(Nfa& nfa);

// Numbers: at most 15 digits, so that every reader of doubles tells them apart.
struct NumberBounds {
  bool integer = false;
  // Decimal numbers as text, without exponent; none: no bound.
  std::optional<std::string> minimum = {};
  std::optional<std::string> maximum = {};
  bool minimum_excluded = false;
  bool maximum_excluded = false;
  int64_t multiple_of = 0;  // of integers; 0: any

  bool any() const { return minimum || maximum || multiple_of > 0; }
};
// With an exponent of at most two digits where nothing bounds the number.
Dfa numbers(const NumberBounds& bounds);

}  // namespace fathom::grammar
