// Qwen2ForCausalLM, LlamaForCausalLM and Qwen3ForCausalLM: all weights in memory.
#pragma once

#include <memory>
#include <string>

#include "engine/backend.h"

namespace fathom {

std::unique_ptr<Backend> open_dense_backend(const std::string& folder, const LoadOptions& options);

}  // namespace fathom
