// What an ONNX file says of its graph and of other files, read without the weights in it.
#pragma once

#include <string>
#include <vector>

#include "graph/tensor.h"

namespace fathom::onnx {

struct ContextNode {
  std::string name;
  std::string file;    // of the binary; "" where it is embedded
  std::string source;  // "Qnn"
};

struct ModelFiles {
  std::vector<std::string> data_files;  // of external tensors, relative to the model's folder
  std::vector<ContextNode> contexts;
  std::vector<TensorSpec> inputs;  // of the graph
  std::vector<TensorSpec> outputs;
};

// Error(input) naming the file and the offset where it is no ONNX model.
ModelFiles read_model_files(const std::string& path);

}  // namespace fathom::onnx
