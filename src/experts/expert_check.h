// A search of an expert's bytes for values that are no number.
#pragma once

#include "base/threads.h"
#include "experts/expert_layout.h"

namespace fathom {

// Error(input) names file, tensor, element and offset of the first one.
void check_expert_values(const ExpertLayout& layout, ExpertId id, const std::byte* slot,
                         ThreadPool& pool);

}  // namespace fathom
