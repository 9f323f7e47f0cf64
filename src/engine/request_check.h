// What a request asks for, before anything is computed for it.
#pragma once

#include "engine/engine.h"
#include "engine/model_parts.h"
#include "fathom/model.h"
#include "sample/sampler.h"
#include "text/reasoning.h"

namespace fathom {

// Error naming what is wrong with a request.
void check_request(const ModelParts& parts, const GenerateRequest& request);
// The sampling in force: the request's, then generation_config.json's, then the defaults.
SamplingOptions resolve(const SamplingRequest& asked, const GenerationConfig& defaults);
// Where the prompt leaves the output.
ReasoningSplitter::Start start_of(const Prompt& prompt);

}  // namespace fathom
