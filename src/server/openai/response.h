// Answers in OpenAI's shapes.
#pragma once

#include <cstdint>
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
struct ChoiceForm {
  int64_t index = 0;
  bool logprobs = false;
  const Echo* echo = nullptr;  // of a completion
};
std::string choice_json(const AnswerHead& head, const ChoiceForm& form,
                        const GenerateResult& result);

// What a tool call is known by in later messages: the same in a stream and in a whole answer.
std::string tool_call_id(const AnswerHead& head, int64_t choice, int64_t call);
// A step's tool calls as a delta has them: {"tool_calls": [...]}; "" where there is nothing to
// tell.
std::string tool_delta(const AnswerHead& head, int64_t choice, const GenerateStep& step);

// "tool_calls", "stop" or "length"; what was cancelled was cut short.
const char* finish_reason_text(const GenerateResult& result);

}  // namespace fathom::server
