// Generation for callers that wait for it; see Model.
#pragma once

#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/model_parts.h"

namespace fathom {

ModelParts parts_of(Engine& engine, SpeculationJudge& judge);

// Error where the request fails.
GenerateResult generate(const ModelParts& parts, const GenerateRequest& request);
std::vector<GenerateResult> generate_samples(const ModelParts& parts,
                                             const GenerateRequest& request, int64_t count,
                                             int64_t parallel);
std::vector<GenerateResult> generate_each(const ModelParts& parts,
                                          std::span<const GenerateRequest> requests,
                                          int64_t parallel);

}  // namespace fathom
