// Qwen2ForCausalLM, LlamaForCausalLM and Qwen3ForCausalLM: all weights in memory.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/footprint.h"
#include "engine/backend.h"

namespace fathom {

std::unique_ptr<Backend> open_dense_backend(const std::string& folder, const LoadOptions& options);

// What a dense model's weights take in memory where its layers are kept so.
Footprint dense_footprint(const Checkpoint& checkpoint, const DenseConfig& config,
                          WeightPrecision layers);

}  // namespace fathom
