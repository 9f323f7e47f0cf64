// What the QNN execution provider can be told. The provider takes any key in silence, so keys and
// values are checked here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/runtime.h"

namespace fathom {

// "htp_arch=81" as a checked pair; Error(usage) that begins with `where` and names what is allowed.
std::pair<std::string, std::string> parse_qnn_option(const std::string& text,
                                                     const std::string& where);
void check_qnn_option(const std::string& key, const std::string& value, const std::string& where);
// backend_path and backend_type exclude each other.
void check_qnn_options(const GraphOptions& options, const std::string& where);

// A line per option: the key and what it takes.
std::string qnn_options_help();

// Snapdragon chips by QNN's soc_model number.
struct SnapdragonChip {
  int soc_model;
  const char* name;
  int htp_arch;
};
const SnapdragonChip* chip_of(int soc_model);  // nullptr where it is not known
// The Hexagon generation that the options name, by htp_arch or by soc_model; Error(usage) where the
// two contradict each other.
std::optional<int> wanted_arch(const GraphOptions& options, const std::string& where);

}  // namespace fathom
