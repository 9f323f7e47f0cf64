#include "server/openai/response.h"

#include <fmt/format.h>

#include "server/openai/logprobs.h"

namespace fathom::server {
namespace {

std::string chat_message(const AnswerHead& head, int64_t choice, const GenerateResult& result) {
  JsonObject message;
  message.text("role", "assistant");
  if (result.content.empty() && !result.tool_calls.empty()) {
    message.raw("content", "null");
  } else {
    message.text("content", result.content);
  }
  if (!result.reasoning.empty()) message.text("reasoning_content", result.reasoning);
  if (!result.tool_calls.empty()) {
    std::string calls;
    for (size_t i = 0; i < result.tool_calls.size(); ++i) {
      const ToolCall& call = result.tool_calls[i];
      if (i > 0) calls += ',';
      calls += JsonObject()
                   .text("id", tool_call_id(head, choice, static_cast<int64_t>(i)))
                   .text("type", "function")
                   .object("function",
                           JsonObject().text("name", call.name).text("arguments", call.arguments))
                   .str();
    }
    message.raw("tool_calls", "[" + calls + "]");
  }
  return message.raw("refusal", "null").str();
}

std::string completion_choice_logprobs(const ChoiceForm& form, const GenerateResult& result) {
  CompletionLogprobs logprobs;
  if (form.echo != nullptr) {
    logprobs.add_first(form.echo->first_token, form.echo->first_is_text);
    logprobs.add(result.prompt_logprobs);
  }
  logprobs.add(result.logprobs);
  return logprobs.take();
}

}  // namespace

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

const char* finish_reason_text(const GenerateResult& result) {
  if (result.finish_reason != FinishReason::stop) return "length";
  return result.tool_calls.empty() ? "stop" : "tool_calls";
}

std::string tool_call_id(const AnswerHead& head, int64_t choice, int64_t call) {
  return fmt::format("call_{}_{}_{}", head.id, choice, call);
}

std::string tool_delta(const AnswerHead& head, int64_t choice, const GenerateStep& step) {
  std::string calls;
  for (const ToolEvent& event : step.tools) {
    JsonObject call;
    call.integer("index", event.index);
    if (event.kind == ToolEvent::Kind::begins) {
      call.text("id", tool_call_id(head, choice, event.index))
          .text("type", "function")
          .object("function", JsonObject().text("name", event.text).text("arguments", ""));
    } else if (event.kind == ToolEvent::Kind::arguments) {
      call.object("function", JsonObject().text("arguments", event.text));
    } else {
      continue;
    }
    if (!calls.empty()) calls += ',';
    calls += call.str();
  }
  return calls.empty() ? "" : "{\"tool_calls\":[" + calls + "]}";
}

std::string choice_json(const AnswerHead& head, const ChoiceForm& form,
                        const GenerateResult& result) {
  JsonObject choice;
  choice.integer("index", form.index);
  std::string logprobs = "null";
  if (head.endpoint == Endpoint::completions) {
    choice.text("text", (form.echo != nullptr ? form.echo->text : "") + result.content);
    if (form.logprobs) logprobs = completion_choice_logprobs(form, result);
  } else {
    choice.raw("message", chat_message(head, form.index, result));
    if (form.logprobs) logprobs = chat_logprobs(result.logprobs);
  }
  return choice.raw("logprobs", logprobs).text("finish_reason", finish_reason_text(result)).str();
}

}  // namespace fathom::server
