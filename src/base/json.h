// JSON as the project accepts it: depth-limited, duplicate keys refused, errors with a place.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace fathom {

// Parses the whole of `text`. `what` names the source in errors ("config.json", "request body").
// More than `depth` nested levels, a duplicate key, trailing text or any syntax error is an
// Error(input) that names the line and column.
nlohmann::json parse_json(std::string_view text, std::string_view what, int depth = 64);
// The same, keeping the order of keys.
nlohmann::ordered_json parse_ordered_json(std::string_view text, std::string_view what,
                                          int depth = 64);

}  // namespace fathom
