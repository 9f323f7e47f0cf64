// A QNN context binary in the form that ONNX Runtime loads: an ONNX model of one EPContext node
// that names the binary and declares its tensors.
#pragma once

#include <string>
#include <vector>

#include "graph/tensor.h"

namespace fathom {

struct ContextWrapper {
  std::string name;    // of the wrapper's file, without .onnx
  std::string binary;  // path of the context binary
  std::string graph;   // the QNN graph's name, which the node bears; "": that of the wrapper
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

// Writes it into `folder` and returns its path. The binary must be reached by a relative path
// without "..", so a link to it is put beside the wrapper (a copy where links are refused).
std::string write_context_wrapper(const ContextWrapper& wrapper, const std::string& folder);

}  // namespace fathom
