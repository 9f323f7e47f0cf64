// DeepseekV3ForCausalLM: latent attention, routed experts in memory or on disk, drafts.
#pragma once

#include <memory>
#include <string>

#include "engine/backend.h"

namespace fathom {

std::unique_ptr<Backend> open_deepseek_backend(const std::string& folder,
                                               const LoadOptions& options);

}  // namespace fathom
