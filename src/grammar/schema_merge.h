// Two schemas of which a value must fit both, as one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/schema.h"

namespace fathom::grammar {

// None where nothing fits both. Error(usage) where the two cannot be made one.
std::optional<FlatSchema> merge(const FlatSchema& a, const FlatSchema& b);

// "oneOf": Error(usage) unless it can be seen that no value fits two of the groups: by their types,
// or by a required property with different constants.
void check_exclusive(const std::vector<std::vector<FlatSchema>>& groups, const std::string& path);

}  // namespace fathom::grammar
