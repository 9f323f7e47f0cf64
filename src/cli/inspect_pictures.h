// The pictures on the page of an inspection, as SVG. Colours are classes: "part-N" for what a
// tensor is for (Part), "group-N" for a kind of layer (Group).
#pragma once

#include <string>

#include "checkpoint/inspection.h"

namespace fathom::cli {

// Modules as boxes with areas in proportion to their bytes, one inside another.
std::string treemap_svg(const ModuleNode& root);
// Shards from left to right, layers from top to bottom; stronger where a shard holds more of a
// layer's tensors.
std::string shard_map_svg(const Inspection& inspection);

}  // namespace fathom::cli
