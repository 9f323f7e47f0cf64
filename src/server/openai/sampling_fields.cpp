#include "server/openai/sampling_fields.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/openai/api_error.h"

namespace fathom::server {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kMostSamples = 128;
constexpr size_t kMostStops = 16;
constexpr int64_t kMostTokens = int64_t{1} << 40;

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

}  // namespace

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

}  // namespace fathom::server
