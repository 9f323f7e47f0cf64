// The body of an OpenAI request as a GenerateRequest.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fathom/model.h"

namespace fathom::server {

enum class Endpoint { chat_completions, completions };
// "/v1/chat/completions" or "/v1/completions", with or without /v1; none for anything else.
std::optional<Endpoint> endpoint_of(std::string_view url);

// A prompt as an answer repeats it in front of what was generated.
struct Echo {
  std::string text;
  std::string first_token;     // the text of the prompt's first id, which nothing predicts
  bool first_is_text = false;  // `text` begins with it: it is no token put in front of a given text
};

struct OpenAiRequest {
  Endpoint endpoint = Endpoint::chat_completions;
  std::optional<std::string> model;
  GenerateRequest request;      // less the prompt
  std::vector<Prompt> prompts;  // at least one; a chat has just one
  std::vector<Echo> echoes;     // of each prompt, or none
  int64_t samples = 1;          // n, of each prompt
  bool has_seed = false;
  bool has_limit = false;
  bool stream = false;
  bool include_usage = false;  // in a stream
  std::string format_field;    // the field that asks for request.format; "" where none does

  const Echo* echo_of(size_t prompt) const { return echoes.empty() ? nullptr : &echoes[prompt]; }
};

struct RequestRules {
  // Unknown fields that might change the result are an error (else nothing looks at them).
  bool refuse_unknown = false;
  bool may_stream = true;
};

// ApiError naming the field: wrong types and values, what is not supported, a prompt that leaves no
// room in the context. Fields that only concern accounts or transport are ignored. Renders or
// tokenizes the prompts with the model; any number of threads may do so at once.
OpenAiRequest parse_openai_request(Endpoint endpoint, const nlohmann::ordered_json& body,
                                   const Model& model, const RequestRules& rules = {});

}  // namespace fathom::server
