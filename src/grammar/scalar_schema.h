// What schemas say of strings, numbers and counts.
#pragma once

#include <string>
#include <utility>

#include "grammar/automaton.h"
#include "grammar/schema.h"

namespace fathom::grammar {

bool constrains_numbers(const FlatSchema& schema);
bool constrains_strings(const FlatSchema& schema);

// The spellings that the schema's keywords allow. Error(usage) names keyword and path.
Dfa number_automaton(const FlatSchema& schema, bool integer);
Dfa string_automaton(const FlatSchema& schema);

// A least and a most count (kUnlimited where the schema names none). Large ones are lowered, which
// every validator accepts.
std::pair<int64_t, int64_t> counts(const FlatSchema& schema, const char* least, const char* most);

bool is_whole(double value);

}  // namespace fathom::grammar
