// What the layers of an exported decoder have in common, whatever its attention is fed with.
#pragma once

#include <string>
#include <vector>

#include "base/cancel.h"
#include "checkpoint/checkpoint.h"
#include "graph/export/decoder_shape.h"
#include "graph/export/weight_file.h"
#include "graph/onnx/graph_writer.h"

namespace fathom {

// "model.layers.3."
std::string layer_prefix(int64_t layer);

// All weights of one layer, matrices as [in, out]. q_proj, weight and bias, is multiplied by
// 1/sqrt(head_dim): with the scale inside q, q.k of float16 stays small where keys are large (in
// Qwen2 they reach 400), and attention itself multiplies by 1.
std::vector<onnx::ExternalTensor> export_layer_weights(const Checkpoint& checkpoint,
                                                       const DecoderShape& shape, int64_t layer,
                                                       WeightFile& file, const CancelToken* cancel);

class DecoderGraph {
 public:
  DecoderGraph(onnx::GraphWriter& writer, const DecoderShape& shape, ElementType type)
      : writer_(writer), shape_(shape), type_(type) {}

  // x * weight / sqrt(mean(x^2) + eps), in float32 whatever the graph's own type is: squares of
  // large hidden values do not fit into float16.
  std::string norm(const std::string& x, const std::string& weight);
  // x [.., in] times [in, out], and the bias where the checkpoint has one.
  std::string linear(const std::string& x, const std::string& name, bool bias = false);
  std::string gated_mlp(const std::string& x, int64_t layer);

 private:
  onnx::GraphWriter& writer_;
  const DecoderShape& shape_;
  ElementType type_;
};

}  // namespace fathom
