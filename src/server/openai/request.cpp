#include "server/openai/request.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "server/openai/api_error.h"
#include "server/openai/fields.h"
#include "server/openai/prompt_fields.h"
#include "server/openai/sampling_fields.h"
#include "server/openai/tool_fields.h"

namespace fathom::server {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kMostTopLogprobs = 20;

// Accounts, transport and names: nothing that a result depends on.
const std::vector<std::string_view> kHarmless = {
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"};

// Ids that the model has no row for, and prompts that leave no room for a token, are refused before
// anything waits for them.
void check_ids(const OpenAiRequest& parsed, const ModelInfo& info) {
  for (const auto& [id, bias] : parsed.request.sampling.logit_bias) {
    if (id >= 0 && id < info.vocab_size) continue;
    refuse_field("logit_bias", "token {} is outside the vocabulary of {}", id, info.vocab_size);
  }
  const std::string name = parsed.endpoint == Endpoint::completions ? "prompt" : "messages";
  for (const Prompt& prompt : parsed.prompts) {
    if (prompt.ids.empty()) refuse_field(name, "the prompt is empty");
    for (const int32_t id : prompt.ids) {
      if (id >= info.vocab_size) {
        refuse_field(name, "token {} is outside the vocabulary of {}", id, info.vocab_size);
      }
    }
    const auto tokens = static_cast<int64_t>(prompt.ids.size());
    if (tokens < info.context.tokens) continue;
    throw ApiError(400,
                   fmt::format("{}: the prompt has {} tokens, and the context of {} must also hold "
                               "the answer",
                               name, tokens, info.context.tokens),
                   {name, "context_length_exceeded"});
  }
}

// A switch and a number.
void read_chat_logprobs(Fields& fields, OpenAiRequest* parsed) {
  const bool wanted = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (top && *top > 0 && !wanted) refuse_field("top_logprobs", "logprobs is not true");
  if (wanted) parsed->request.logprobs = top.value_or(0);
}

void read_completion(Fields& fields, const RequestRules& rules, const Model& model,
                     OpenAiRequest* parsed) {
  parsed->request.split_reasoning = false;
  parsed->request.logprobs = fields.integer("logprobs", 0, kMostTopLogprobs);
  fields.refuse_unless("best_of", {parsed->samples});
  const json* prompt = fields.find("prompt");
  const auto suffix = fields.text("suffix");
  const bool echo = fields.boolean("echo", false);
  if (rules.refuse_unknown) fields.refuse_others(kHarmless);
  if (suffix && !suffix->empty()) {
    if (echo) refuse_field("echo", "not together with suffix");
    parsed->prompts.push_back(fill_in_prompt(prompt, *suffix, model));
    return;
  }
  read_prompts(prompt, echo, model, parsed);
  if (!echo || !parsed->request.logprobs) return;
  if (parsed->stream) refuse_field("echo", "not with logprobs in a stream");
  parsed->request.prompt_logprobs = true;
}

void read_chat(Fields& fields, const RequestRules& rules, const Model& model,
               OpenAiRequest* parsed) {
  read_chat_logprobs(fields, parsed);
  parsed->request.reasoning_budget =
      fields.integer("reasoning_budget", 0, std::numeric_limits<int32_t>::max());
  RenderOptions options;
  options.tools = read_tools(fields, model, parsed);
  read_response_format(fields, parsed);
  options.add_generation_prompt = fields.boolean("add_generation_prompt", true);
  options.continue_final_message = fields.boolean("continue_final_message", false);
  fields.refuse_unless("functions", {json::array()});
  fields.refuse_unless("modalities", {json::array({"text"})});
  const json* messages = fields.find("messages");
  if (messages == nullptr) refuse_field("messages", "they are missing");
  if (rules.refuse_unknown) fields.refuse_others(kHarmless);
  if (asks_to_continue(*messages)) options.continue_final_message = true;
  parsed->prompts.push_back(model.render(messages->dump(), options));
}

}  // namespace

std::optional<Endpoint> endpoint_of(std::string_view url) {
  if (url.starts_with("/v1/")) url.remove_prefix(3);
  if (url == "/chat/completions") return Endpoint::chat_completions;
  if (url == "/completions") return Endpoint::completions;
  return std::nullopt;
}

OpenAiRequest parse_openai_request(Endpoint endpoint, const json& body, const Model& model,
                                   const RequestRules& rules) {
  Fields fields(body);
  OpenAiRequest parsed;
  parsed.endpoint = endpoint;
  parsed.model = fields.text("model");
  read_sampling(fields, &parsed);
  read_limits(fields, &parsed);
  read_stream(fields, rules, &parsed);
  if (endpoint == Endpoint::completions) {
    read_completion(fields, rules, model, &parsed);
  } else {
    read_chat(fields, rules, model, &parsed);
  }
  check_ids(parsed, model.info());
  return parsed;
}

}  // namespace fathom::server
