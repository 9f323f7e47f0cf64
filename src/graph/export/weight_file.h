// Weights on their way from a checkpoint into the data files of ONNX models. One tensor at a time
// is in memory, as it is stored.
#pragma once

#include <functional>
#include <string>

#include "base/cancel.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "graph/onnx/graph_writer.h"

namespace fathom {

class WeightFile {
 public:
  // `folder`/`name` receives the bytes, as f32 or f16.
  WeightFile(const std::string& folder, const std::string& name, ElementType type);

  struct Source {
    std::string tensor;          // of the checkpoint
    std::vector<int64_t> shape;  // expected; [out, in] for matrices
    bool transposed = false;     // written as [in, out], which MatMul takes
    double scale = 1;
    std::string as;  // name in the ONNX model; "": that of the tensor
  };
  // Error(input) where the tensor is missing, of another shape, of a format other than
  // BF16/F16/F32, or has a value that f16 cannot hold.
  onnx::ExternalTensor add(const Checkpoint& checkpoint, const Source& source,
                           const CancelToken* cancel);
  // Values that come from no checkpoint.
  onnx::ExternalTensor add(const std::string& name, const std::vector<int64_t>& shape,
                           const std::vector<float>& values);

  uint64_t bytes() const { return offset_; }
  void commit() { file_.commit(); }

 private:
  onnx::ExternalTensor begin(const std::string& name, const std::vector<int64_t>& shape);
  void put(std::span<const float> values, const std::string& what);

  std::string name_;
  ElementType type_;
  OutputFile file_;
  uint64_t offset_ = 0;
  std::vector<uint16_t> halves_;
};

// A function that reads element i of a tensor stored as BF16, F16 or F32; Error(input) naming the
// tensor for other formats.
std::function<float(int64_t)> stored_values(const TensorInfo& tensor,
                                            std::span<const std::byte> bytes);

}  // namespace fathom
