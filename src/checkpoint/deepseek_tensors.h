// Which tensors a DeepseekV3 checkpoint must hold, by its config, and what was found instead.
#pragma once

#include <vector>

#include "checkpoint/expected_tensors.h"
#include "checkpoint/hf_config.h"

namespace fathom {

// In the order of the released files (embedding, layers, final norm, head, MTP).
std::vector<ExpectedTensor> expected_deepseek_tensors(const DeepseekConfig& config, bool with_mtp);

// Compares the checkpoint with its config: missing tensors, wrong shapes, dtypes that no kernel
// takes, F8 weights without (or with misshapen) scales. All problems go into one Error(input),
// grouped so that it stays readable however many there are. MTP tensors are known whether they are
// used or not; when they are all absent, the model simply has no MTP. Tensors that nothing expects
// are named in a warning.
TensorReport check_deepseek_tensors(const Checkpoint& checkpoint, const DeepseekConfig& config);

// The same comparison, for those who list what is wrong: nothing is thrown, and unexpected tensors
// are not warned of.
TensorComparison compare_deepseek_tensors(const Checkpoint& checkpoint,
                                          const DeepseekConfig& config);

}  // namespace fathom
