#include "server/openai/response.h"

namespace fathom::server {

void Usage::add(const GenerateResult& result, bool first_of_prompt) {
  if (first_of_prompt) {
    prompt_tokens += result.prompt_tokens;
    cached_tokens += result.cached_tokens;
  }
  completion_tokens += static_cast<int64_t>(result.ids.size());
  reasoning_tokens += result.reasoning_tokens;
}

JsonObject Usage::json() const {
  return JsonObject()
      .integer("prompt_tokens", prompt_tokens)
      .integer("completion_tokens", completion_tokens)
      .integer("total_tokens", prompt_tokens + completion_tokens)
      .object("prompt_tokens_details", JsonObject().integer("cached_tokens", cached_tokens))
      .object("completion_tokens_details",
              JsonObject().integer("reasoning_tokens", reasoning_tokens));
}

JsonObject answer_object(const AnswerHead& head, bool chunk) {
  const bool chat = head.endpoint == Endpoint::chat_completions;
  JsonObject object;
  object.text("id", (chat ? "chatcmpl-" : "cmpl-") + head.id)
      .text("object", !chat   ? "text_completion"
                      : chunk ? "chat.completion.chunk"
                              : "chat.completion")
      .integer("created", head.created)
      .text("model", head.model);
  return object;
}

const char* finish_reason_text(FinishReason reason) {
  return reason == FinishReason::stop ? "stop" : "length";
}

std::string choice_json(Endpoint endpoint, int64_t index, const GenerateResult& result) {
  JsonObject choice;
  choice.integer("index", index);
  if (endpoint == Endpoint::completions) {
    choice.text("text", result.content);
  } else {
    JsonObject message;
    message.text("role", "assistant").text("content", result.content);
    if (!result.reasoning.empty()) message.text("reasoning_content", result.reasoning);
    choice.object("message", message.raw("refusal", "null"));
  }
  return choice.raw("logprobs", "null")
      .text("finish_reason", finish_reason_text(result.finish_reason))
      .str();
}

}  // namespace fathom::server
