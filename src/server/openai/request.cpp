#include "server/openai/request.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/openai/api_error.h"
#include "server/openai/fields.h"

namespace fathom::server {
namespace {

using nlohmann::json;

constexpr int64_t kMostSamples = 128;
constexpr size_t kMostStops = 16;
constexpr size_t kMostPrompts = 128;
constexpr int64_t kMostTokens = int64_t{1} << 40;

// Accounts, transport and names: nothing that a result depends on.
const std::vector<std::string_view> kHarmless = {"user",
                                                 "metadata",
                                                 "store",
                                                 "service_tier",
                                                 "parallel_tool_calls",
                                                 "safety_identifier",
                                                 "prompt_cache_key"};

std::vector<std::pair<int32_t, double>> logit_bias(const json& value) {
  if (!value.is_object()) refuse_field("logit_bias", "it is not an object");
  std::vector<std::pair<int32_t, double>> biases;
  for (const auto& [name, bias] : value.items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) {
      refuse_field("logit_bias", "'{}' is not a token id", name);
    }
    if (!bias.is_number()) refuse_field("logit_bias", "the value of {} is not a number", name);
    biases.emplace_back(id, bias.get<double>());
  }
  return biases;
}

// Empty strings would stop everything at once; they are left out.
std::vector<std::string> stops(const json& value) {
  const auto problem = [] {
    refuse_field("stop", "it is neither a string nor an array of at most {} strings", kMostStops);
  };
  std::vector<std::string> texts;
  if (value.is_string()) {
    texts.push_back(value.get<std::string>());
  } else {
    if (!value.is_array() || value.size() > kMostStops) problem();
    for (const json& text : value) {
      if (!text.is_string()) problem();
      texts.push_back(text.get<std::string>());
    }
  }
  std::erase(texts, "");
  return texts;
}

Prompt id_prompt(const json& value, const std::string& name) {
  Prompt prompt;
  prompt.ids = token_ids(value, name);
  return prompt;
}

// A string, an array of ids, or an array of strings or of arrays of ids.
std::vector<Prompt> completion_prompts(const json* value, const Model& model) {
  if (value == nullptr) refuse_field("prompt", "it is missing");
  if (value->is_string()) return {model.raw_prompt(value->get<std::string>())};
  if (!value->is_array()) {
    refuse_field("prompt", "it is neither a string nor an array of token ids");
  }
  if (value->empty() || value->front().is_number()) return {id_prompt(*value, "prompt")};
  if (value->size() > kMostPrompts) {
    refuse_field("prompt", "{} prompts are more than {}", value->size(), kMostPrompts);
  }
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < value->size(); ++i) {
    const json& one = (*value)[i];
    const std::string name = fmt::format("prompt[{}]", i);
    if (!one.is_string() && !one.is_array()) {
      refuse_field(name, "it is neither a string nor an array of token ids");
    }
    prompts.push_back(one.is_string() ? model.raw_prompt(one.get<std::string>())
                                      : id_prompt(one, name));
  }
  return prompts;
}

void read_sampling(Fields& fields, OpenAiRequest* parsed) {
  SamplingRequest& sampling = parsed->request.sampling;
  sampling.temperature = fields.number("temperature");
  sampling.top_p = fields.number("top_p");
  sampling.min_p = fields.number("min_p");
  sampling.top_k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max());
  if (sampling.top_k == -1) sampling.top_k = 0;
  sampling.repetition_penalty = fields.number("repetition_penalty");
  sampling.presence_penalty = fields.number("presence_penalty").value_or(0);
  sampling.frequency_penalty = fields.number("frequency_penalty").value_or(0);
  if (const json* bias = fields.find("logit_bias")) sampling.logit_bias = logit_bias(*bias);
  const json* seed = fields.find("seed");
  if (seed == nullptr) return;
  if (!seed->is_number_integer()) refuse_field("seed", "it is not a whole number");
  sampling.seed = seed->get<uint64_t>();  // a negative one wraps around
  parsed->has_seed = true;
}

void read_limits(Fields& fields, OpenAiRequest* parsed) {
  GenerateRequest& request = parsed->request;
  const auto most = fields.integer("max_tokens", 1, kMostTokens);
  const auto most_completion = fields.integer("max_completion_tokens", 1, kMostTokens);
  request.max_tokens = most_completion.value_or(most.value_or(0));
  parsed->has_limit = request.max_tokens > 0;
  if (const json* stop = fields.find("stop")) request.stop = stops(*stop);
  if (const json* ids = fields.find("stop_token_ids")) {
    request.stop_ids = token_ids(*ids, "stop_token_ids");
  }
  request.ignore_eos = fields.boolean("ignore_eos", false);
  parsed->samples = fields.integer("n", 1, kMostSamples).value_or(1);
}

void read_stream(Fields& fields, const RequestRules& rules, OpenAiRequest* parsed) {
  parsed->stream = fields.boolean("stream", false);
  if (parsed->stream && !rules.may_stream) refuse_field("stream", "not supported here");
  const json* options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) refuse_field("stream_options", "it is not an object");
  Fields inner(*options);
  parsed->include_usage = inner.boolean("include_usage", false);
}

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
  fields.refuse_unless("tools", {json::array()});
  fields.refuse_unless("tool_choice", {"none", "auto"});
  fields.refuse_unless("functions", {json::array()});
  fields.refuse_unless("response_format", {json{{"type", "text"}}});
  fields.refuse_unless("logprobs", {false});
  fields.refuse_unless("top_logprobs", {0});
  fields.refuse_unless("modalities", {json::array({"text"})});
  if (endpoint == Endpoint::completions) {
    fields.refuse_unless("echo", {false});
    fields.refuse_unless("best_of", {parsed.samples});
    fields.refuse_unless("suffix", {""});
    const json* prompt = fields.find("prompt");
    if (rules.refuse_unknown) fields.refuse_others(kHarmless);
    parsed.prompts = completion_prompts(prompt, model);
    parsed.request.split_reasoning = false;
  } else {
    const json* messages = fields.find("messages");
    if (messages == nullptr) refuse_field("messages", "they are missing");
    if (rules.refuse_unknown) fields.refuse_others(kHarmless);
    parsed.prompts.push_back(model.render(messages->dump()));
  }
  check_ids(parsed, model.info());
  return parsed;
}

}  // namespace fathom::server
