// Regular expressions of JSON schemas ("pattern"), as automata over the JSON spelling of strings.
#pragma once

#include <string>
#include <string_view>

#include "grammar/automaton.h"

namespace fathom::grammar {

// A JSON string, quotes included and in its shortest spelling, in which `source` matches somewhere.
// ECMAScript's syntax as far as it is regular: no groups that look around or back, no \b, no \p;
// ^ and $ at the ends of alternatives. Error(usage) names `path` and the offset.
Dfa pattern_string(std::string_view source, const std::string& path);

}  // namespace fathom::grammar
