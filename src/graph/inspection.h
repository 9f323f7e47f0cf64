// What a folder of graphs holds and what this machine has to run it, without loading weights.
#pragma once

#include <string>
#include <vector>

#include "base/platform.h"
#include "graph/graph_decoder.h"

namespace fathom {

struct InspectedGraph {
  std::string name;  // "context"
  std::string file;
  uint64_t bytes = 0;  // of the file
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  // Context binaries that are inside or beside it, with the QNN release that made them where it is
  // written in them; of a raw binary itself, whose tensors nobody but QNN can tell.
  std::vector<std::string> contexts;
};

struct GraphInspection {
  std::string folder;
  std::string contract;  // "four graphs", "QHexRT bundle"
  std::string source;    // the configuration's or manifest's file
  Platform platform;
  std::string runtime;  // "ONNX Runtime 1.29.0 (FILE)"; "" where none was found
  std::vector<std::string> providers;
  std::vector<GraphDevice> devices;
  std::string qnn_library;  // the plugin; "" where there is none
  std::vector<InspectedGraph> graphs;
  std::vector<std::string> problems;  // what keeps it from running here
};

GraphInspection inspect_graphs(const std::string& folder, const GraphChoice& choice);

}  // namespace fathom
