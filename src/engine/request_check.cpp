#include "engine/request_check.h"

#include "base/error.h"
#include "sample/stop_strings.h"

namespace fathom {
namespace {

// What the file says and the request leaves to it is checked by itself, so that the file is named.
void check_defaults(const SamplingRequest& asked, const GenerationConfig& defaults,
                    const std::string& folder) {
  SamplingOptions options;
  if (!asked.temperature && defaults.temperature) options.temperature = *defaults.temperature;
  if (!asked.top_p && defaults.top_p) options.top_p = *defaults.top_p;
  if (!asked.min_p && defaults.min_p) options.min_p = *defaults.min_p;
  try {
    validate(options);
  } catch (const Error& error) {
    fail_input("{}/generation_config.json: {}", folder, error.what());
  }
}

// Error(usage) naming the first id outside the vocabulary.
void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      fail_usage("token {} at place {} is outside the vocabulary of {}", ids[i], i, vocab_size);
    }
  }
}

void check_output(const ModelParts& parts, const GenerateRequest& request) {
  if (request.logprobs && *request.logprobs < 0) {
    fail_usage("logprobs: {} is negative", *request.logprobs);
  }
  if (request.parse_tool_calls && (!request.split_reasoning || parts.text == nullptr)) {
    fail_usage("parse_tool_calls: thought and answer are not told apart here");
  }
  if (request.format.kind != OutputFormat::Kind::text) {
    if (!request.split_reasoning || !parts.formats) {
      fail_usage("response_format: thought and answer are not told apart here");
    }
    if (request.ignore_eos) fail_usage("response_format: an answer of a format has an end");
    parts.formats->compile(request.format, start_of(request.prompt));
  }
  if (!request.reasoning_budget) return;
  if (*request.reasoning_budget < 0) {
    fail_usage("reasoning_budget: {} is negative", *request.reasoning_budget);
  }
  if (!request.split_reasoning || parts.text == nullptr) {
    fail_usage("reasoning_budget: thought and answer are not told apart here");
  }
}

}  // namespace

SamplingOptions resolve(const SamplingRequest& asked, const GenerationConfig& defaults) {
  SamplingOptions options;
  const bool greedy_by_default = defaults.do_sample == false;
  options.temperature =
      asked.temperature.value_or(greedy_by_default ? 0.0 : defaults.temperature.value_or(1.0));
  options.top_k = asked.top_k.value_or(defaults.top_k.value_or(0));
  options.top_p = asked.top_p.value_or(defaults.top_p.value_or(1.0));
  options.min_p = asked.min_p.value_or(defaults.min_p.value_or(0.0));
  options.repetition_penalty =
      asked.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0));
  options.presence_penalty = asked.presence_penalty;
  options.frequency_penalty = asked.frequency_penalty;
  options.logit_bias = asked.logit_bias;
  options.seed = asked.seed;
  validate(options);
  return options;
}

ReasoningSplitter::Start start_of(const Prompt& prompt) {
  using Start = ReasoningSplitter::Start;
  if (prompt.opens_thought) return prompt.continues_text ? Start::within_thought : Start::thought;
  return prompt.continues_text ? Start::within_answer : Start::fresh;
}

void check_request(const ModelParts& parts, const GenerateRequest& request) {
  const int64_t vocab = parts.model->shape().vocab_size;
  const ContextDecision& context = *parts.context;
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.ids.size());
  if (prompt_tokens == 0) fail_usage("the prompt is empty");
  check_token_ids(request.prompt.ids, vocab);
  check_token_ids(request.resume, vocab);
  if (prompt_tokens >= context.tokens) {
    fail_usage("the prompt has {} tokens, and the context of {} must also hold the answer ({})",
               prompt_tokens, context.tokens, context.reason);
  }
  if (request.max_tokens < 0) fail_usage("max_tokens: {} is negative", request.max_tokens);
  check_defaults(request.sampling, *parts.defaults, parts.folder);
  resolve(request.sampling, *parts.defaults);
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    check_token_ids(std::span(&id, 1), vocab);
  }
  if (!request.stop.empty() && parts.text == nullptr) {
    fail_input("{}: there is no tokenizer.json, which text needs", parts.folder);
  }
  StopStrings(request.stop);
  check_output(parts, request);
}

}  // namespace fathom
