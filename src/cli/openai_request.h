// The body of an OpenAI request as a GenerateRequest.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "fathom/model.h"

namespace fathom::cli {

enum class Endpoint { chat_completions, completions };
// "/v1/chat/completions" or "/v1/completions", with or without /v1; none for anything else.
std::optional<Endpoint> endpoint_of(const std::string& url);

struct OpenAiRequest {
  Endpoint endpoint = Endpoint::chat_completions;
  GenerateRequest request;
  int64_t samples = 1;  // n
  bool has_seed = false;
  bool has_limit = false;
};

// Error(input) or Error(usage) beginning with the field's name: wrong types and values, and fields
// that would change the result and are not supported here, unknown ones included. Fields that only
// concern accounts or transport are ignored. Renders or tokenizes the prompt with the model.
OpenAiRequest parse_openai_request(Endpoint endpoint, const nlohmann::json& body,
                                   const Model& model);

}  // namespace fathom::cli
