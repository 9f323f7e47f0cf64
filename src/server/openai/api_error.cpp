#include "server/openai/api_error.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "text/json_output.h"

namespace fathom::server {
namespace {

// As the official clients know them.
const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

constexpr std::string_view kFields[] = {"messages",
                                        "prompt",
                                        "suffix",
                                        "model",
                                        "stream",
                                        "stream_options",
                                        "max_tokens",
                                        "max_completion_tokens",
                                        "temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "logit_bias",
                                        "frequency_penalty",
                                        "seed",
                                        "stop",
                                        "stop_token_ids",
                                        "n",
                                        "logprobs",
                                        "top_logprobs",
                                        "tools",
                                        "tool_choice",
                                        "response_format",
                                        "reasoning_budget",
                                        "ignore_eos",
                                        "continue_final_message",
                                        "echo",
                                        "tokens",
                                        "parallel_tool_calls",
                                        "best_of"};

// "messages[0].content" of "messages[0].content: must be a string"; none where the message begins
// with something that is no field of a request.
std::optional<std::string> field_in_front(const std::string& message) {
  const size_t end = message.find(": ");
  if (end == std::string::npos) return std::nullopt;
  const std::string place = message.substr(0, end);
  const std::string first = place.substr(0, place.find_first_of(".["));
  if (std::find(std::begin(kFields), std::end(kFields), first) == std::end(kFields))
    return std::nullopt;
  return place;
}

}  // namespace

ApiError::ApiError(int status, const std::string& message, Place place)
    : Error(status < 500 ? ErrorKind::input : ErrorKind::io, message),
      status_(status),
      place_(std::move(place)) {}

std::string ApiError::body() const {
  return JsonObject()
      .object("error", JsonObject()
                           .text("message", what())
                           .text("type", type_of(status_))
                           .text_or_null("param", place_.param)
                           .text_or_null("code", place_.code))
      .str();
}

ApiError api_error_of(const Error& error) {
  if (const auto* own = dynamic_cast<const ApiError*>(&error)) return *own;
  switch (error.kind()) {
    case ErrorKind::usage:
    case ErrorKind::input:
      return {400, error.what(), {field_in_front(error.what()), {}}};
    case ErrorKind::cancelled:
      return {503, error.what(), {{}, "cancelled"}};
    case ErrorKind::io:
      break;
  }
  return {500, error.what(), {{}, "internal_error"}};
}

}  // namespace fathom::server
