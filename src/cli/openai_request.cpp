#include "cli/openai_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"

namespace fathom::cli {
namespace {

using nlohmann::json;

constexpr int64_t kMostSamples = 128;
constexpr size_t kMostStops = 16;

// Accounts, transport and names: nothing that a result depends on.
constexpr std::array<std::string_view, 9> kHarmless = {"model",
                                                       "user",
                                                       "metadata",
                                                       "store",
                                                       "service_tier",
                                                       "stream_options",
                                                       "parallel_tool_calls",
                                                       "safety_identifier",
                                                       "prompt_cache_key"};

// The fields of a body. null counts as not given.
class Body {
 public:
  explicit Body(const json& body) : body_(body) {
    if (!body.is_object()) fail_input("body: it is not an object");
  }

  // nullptr where it is not given.
  const json* find(const char* name) {
    seen_.insert(name);
    const auto at = body_.find(name);
    return at == body_.end() || at->is_null() ? nullptr : &*at;
  }
  std::optional<double> number(const char* name) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) fail_input("{}: it is not a number", name);
    return value->get<double>();
  }
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most) {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer()) fail_input("{}: it is not a whole number", name);
    const bool huge =
        value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
    if (huge || value->get<int64_t>() < least || value->get<int64_t>() > most) {
      fail_input("{}: {} is not between {} and {}", name, value->dump(), least, most);
    }
    return value->get<int64_t>();
  }
  bool boolean(const char* name, bool otherwise) {
    const json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail_input("{}: it is neither true nor false", name);
    return value->get<bool>();
  }
  // Only these values change nothing.
  void refuse_unless(const char* name, const std::vector<json>& harmless) {
    const json* value = find(name);
    if (value == nullptr) return;
    if (std::find(harmless.begin(), harmless.end(), *value) == harmless.end()) {
      fail_input("{}: not supported here", name);
    }
  }
  void refuse_others() const {
    for (const auto& [name, value] : body_.items()) {
      if (value.is_null() || seen_.contains(name)) continue;
      if (std::find(kHarmless.begin(), kHarmless.end(), name) != kHarmless.end()) continue;
      fail_input("{}: this field is not known here, and might change the result", name);
    }
  }

 private:
  const json& body_;
  std::set<std::string> seen_;
};

std::vector<std::pair<int32_t, double>> logit_bias(const json& value) {
  if (!value.is_object()) fail_input("logit_bias: it is not an object");
  std::vector<std::pair<int32_t, double>> biases;
  for (const auto& [name, bias] : value.items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) {
      fail_input("logit_bias: '{}' is not a token id", name);
    }
    if (!bias.is_number()) fail_input("logit_bias: the value of {} is not a number", name);
    biases.emplace_back(id, bias.get<double>());
  }
  return biases;
}

std::vector<std::string> stops(const json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() || value.size() > kMostStops) {
    fail_input("stop: it is neither a string nor an array of at most {}", kMostStops);
  }
  std::vector<std::string> texts;
  for (const json& text : value) {
    if (!text.is_string()) fail_input("stop: the array holds something that is no string");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::vector<int32_t> token_ids(const json& value, const char* name) {
  std::vector<int32_t> ids;
  for (const json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      fail_input("{}: {} is not a token id", name, id.dump());
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Prompt completion_prompt(const json* value, const Model& model) {
  if (value == nullptr) fail_input("prompt: it is missing");
  if (value->is_string()) return model.raw_prompt(value->get<std::string>());
  if (!value->is_array() || (!value->empty() && !value->front().is_number())) {
    fail_input("prompt: it is neither a string nor an array of token ids");
  }
  Prompt prompt;
  prompt.ids = token_ids(*value, "prompt");
  return prompt;
}

void read_sampling(Body& body, SamplingRequest* sampling) {
  sampling->temperature = body.number("temperature");
  sampling->top_p = body.number("top_p");
  sampling->min_p = body.number("min_p");
  sampling->top_k = body.integer("top_k", -1, std::numeric_limits<int32_t>::max());
  if (sampling->top_k == -1) sampling->top_k = 0;
  sampling->repetition_penalty = body.number("repetition_penalty");
  sampling->presence_penalty = body.number("presence_penalty").value_or(0);
  sampling->frequency_penalty = body.number("frequency_penalty").value_or(0);
  if (const json* bias = body.find("logit_bias")) sampling->logit_bias = logit_bias(*bias);
}

}  // namespace

std::optional<Endpoint> endpoint_of(const std::string& url) {
  if (url == "/v1/chat/completions" || url == "/chat/completions") {
    return Endpoint::chat_completions;
  }
  if (url == "/v1/completions" || url == "/completions") return Endpoint::completions;
  return std::nullopt;
}

OpenAiRequest parse_openai_request(Endpoint endpoint, const json& given, const Model& model) {
  Body body(given);
  OpenAiRequest parsed;
  parsed.endpoint = endpoint;
  GenerateRequest& request = parsed.request;
  read_sampling(body, &request.sampling);
  if (const json* seed = body.find("seed")) {
    if (!seed->is_number_integer()) fail_input("seed: it is not a whole number");
    request.sampling.seed = seed->get<uint64_t>();  // a negative one wraps around
    parsed.has_seed = true;
  }
  constexpr int64_t kMostTokens = int64_t{1} << 40;
  const auto most = body.integer("max_tokens", 1, kMostTokens);
  const auto most_completion = body.integer("max_completion_tokens", 1, kMostTokens);
  request.max_tokens = most_completion.value_or(most.value_or(0));
  parsed.has_limit = request.max_tokens > 0;
  if (const json* stop = body.find("stop")) request.stop = stops(*stop);
  if (const json* ids = body.find("stop_token_ids")) {
    if (!ids->is_array()) fail_input("stop_token_ids: it is not an array");
    request.stop_ids = token_ids(*ids, "stop_token_ids");
  }
  request.ignore_eos = body.boolean("ignore_eos", false);
  parsed.samples = body.integer("n", 1, kMostSamples).value_or(1);

  body.refuse_unless("stream", {false});
  body.refuse_unless("tools", {json::array()});
  body.refuse_unless("tool_choice", {"none", "auto"});
  body.refuse_unless("functions", {json::array()});
  body.refuse_unless("response_format", {json{{"type", "text"}}});
  body.refuse_unless("logprobs", {false});
  body.refuse_unless("top_logprobs", {0});
  body.refuse_unless("modalities", {json::array({"text"})});
  if (endpoint == Endpoint::completions) {
    body.refuse_unless("echo", {false});
    body.refuse_unless("best_of", {parsed.samples});
    body.refuse_unless("suffix", {""});
    request.prompt = completion_prompt(body.find("prompt"), model);
    request.split_reasoning = false;
    body.refuse_others();
    return parsed;
  }
  const json* messages = body.find("messages");
  if (messages == nullptr) fail_input("messages: they are missing");
  body.refuse_others();
  request.prompt = model.render(messages->dump());
  return parsed;
}

}  // namespace fathom::cli
