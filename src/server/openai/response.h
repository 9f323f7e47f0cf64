// Answers in OpenAI's shapes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fathom/model.h"
#include "server/openai/request.h"
#include "text/json_output.h"

namespace fathom::server {

// What is the same in all that belongs to one answer.
struct AnswerHead {
  Endpoint endpoint = Endpoint::chat_completions;
  std::string id;  // without its prefix
  int64_t created = 0;
  std::string model;
};

// Over the results of all samples and prompts.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;

  // A sample of a prompt; the prompt counts once.
  void add(const GenerateResult& result, bool first_of_prompt);
  JsonObject json() const;
};

// {id, object, created, model}; `object` is "chat.completion" or the like.
JsonObject answer_object(const AnswerHead& head, bool chunk);

// One choice of a whole answer.
std::string choice_json(Endpoint endpoint, int64_t index, const GenerateResult& result);

// "stop", "length"; what was cancelled was cut short.
const char* finish_reason_text(FinishReason reason);

}  // namespace fathom::server
