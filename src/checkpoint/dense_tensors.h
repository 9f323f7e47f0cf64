// Which tensors a Qwen2, Llama or Qwen3 checkpoint must hold, by its config.
#pragma once

#include <vector>

#include "checkpoint/dense_config.h"
#include "checkpoint/expected_tensors.h"

namespace fathom {

// In the order of the layers; the head only where it is a tensor of its own.
std::vector<ExpectedTensor> expected_dense_tensors(const DenseConfig& config);
// As compare_deepseek_tensors().
TensorComparison compare_dense_tensors(const Checkpoint& checkpoint, const DenseConfig& config);

}  // namespace fathom
