// What a request gives the model to read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "server/openai/request.h"

namespace fathom::server {

// `prompt` of a completion: a string, an array of ids, or an array of strings or of arrays of ids.
// Fills prompts and, where asked for, echoes.
void read_prompts(const nlohmann::ordered_json* value, bool echo, const Model& model,
                  OpenAiRequest* parsed);

// The prompt with which models that learnt to fill gaps write what stands between `prefix` (a
// string) and `suffix`. ApiError where the vocabulary has no tokens for it.
Prompt fill_in_prompt(const nlohmann::ordered_json* prefix, const std::string& suffix,
                      const Model& model);

// Whether the last message says {"prefix": true}: it is to be continued.
bool asks_to_continue(const nlohmann::ordered_json& messages);

}  // namespace fathom::server
