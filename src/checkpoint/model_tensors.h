// The tensors of any model that can be run.
#pragma once

#include <vector>

#include "checkpoint/expected_tensors.h"
#include "checkpoint/model_config.h"

namespace fathom {

// As in deepseek_tensors.h and dense_tensors.h, whose problems these are; with_mtp matters only
// where there is such a layer.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config, bool with_mtp);
TensorComparison compare_tensors(const Checkpoint& checkpoint, const ModelConfig& config);
// The same, with all problems in one Error(input) and a warning of what is not expected.
TensorReport check_tensors(const Checkpoint& checkpoint, const ModelConfig& config);
// True where config.json speaks of a multi-token-prediction layer.
bool has_mtp_layer(const ModelConfig& config);
// The config's weight_block_size; 0, 0 where the checkpoint is not FP8.
std::pair<int64_t, int64_t> weight_blocks_of(const ModelConfig& config);

}  // namespace fathom
