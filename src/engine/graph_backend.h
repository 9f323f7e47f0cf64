// Models of graphs behind the engine: four graphs, QHexRT bundles.
#pragma once

#include <memory>
#include <string>

#include "engine/backend.h"
#include "graph/graph_decoder.h"

namespace fathom {

// Error(usage) where an option is none.
GraphChoice graph_choice_of(const GraphLoadOptions& options);
std::unique_ptr<Backend> open_graph_backend(const std::string& folder, const LoadOptions& options);

}  // namespace fathom
