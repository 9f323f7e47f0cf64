// The generation loop: prefill what the cache does not hold, then sample and decode.
#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/text_output.h"
#include "sample/sampler.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

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

// Leaves in the cache what matches the prompt, and at least the prompt's last token to compute:
// its logits are wanted.
int64_t reuse(CacheState& cache, KvSequence& sequence, std::span<const int32_t> prompt) {
  const size_t most = std::min(cache.ids.size(), prompt.size() - 1);
  size_t same = 0;
  while (same < most && cache.ids[same] == prompt[same]) ++same;
  sequence.truncate(static_cast<int64_t>(same));
  cache.ids.resize(same);
  return static_cast<int64_t>(same);
}

// Runs `ids`, which follow what is cached, and leaves the last one's logits in `logits`.
void step(Engine& engine, CacheState& cache, KvSequence& sequence, std::span<const int32_t> ids,
          const GenerateRequest& request, bool prefill, Matrix& logits) {
  Sweep sweep;
  sweep.rows.reserve(ids.size());
  const int64_t cached = sequence.length();
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t index = cached + static_cast<int64_t>(i);
    sweep.rows.push_back({ids[i], index, index, &sequence, i + 1 == ids.size()});
  }
  engine.model().begin(sweep);
  engine.run(sweep, request.cancel, prefill ? request.on_prefill : nullptr);
  Matrix final_hidden(1, engine.config().hidden_size);
  engine.model().final_hidden(sweep, final_hidden);
  engine.model().head(final_hidden, logits);
  cache.ids.insert(cache.ids.end(), ids.begin(), ids.end());
}

bool ends(const Engine& engine, const GenerateRequest& request, int32_t id) {
  const auto& stops = request.stop_ids;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) return true;
  if (request.ignore_eos) return false;
  const auto& eos = engine.generation_config().eos_token_ids;
  if (!eos.empty()) return std::find(eos.begin(), eos.end(), id) != eos.end();
  const TextFolder* text = engine.text();
  return text != nullptr && text->tokenizer().id_of(text->tokenizer().eos_token()) == id;
}

}  // namespace

GenerateResult generate(Engine& engine, const GenerateRequest& request, CacheState& cache) {
  const std::span<const int32_t> prompt = request.prompt.ids;
  const int64_t context = engine.info().context.tokens;
  if (prompt.empty()) fail_usage("the prompt is empty");
  engine.check_ids(prompt);
  if (static_cast<int64_t>(prompt.size()) >= context) {
    fail_usage("the prompt has {} tokens, and the context of {} must also hold the answer ({})",
               prompt.size(), context, engine.info().context.reason);
  }
  if (request.max_tokens < 0) fail_usage("max_tokens: {} is negative", request.max_tokens);
  const int64_t room = context - static_cast<int64_t>(prompt.size());
  const int64_t limit = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;

  check_defaults(request.sampling, engine.generation_config(), engine.info().folder);
  Sampler sampler(resolve(request.sampling, engine.generation_config()), request.sampling.choice);
  for (const auto& [id, bias] : request.sampling.logit_bias) engine.check_ids(std::span(&id, 1));
  sampler.see_prompt(prompt);
  std::optional<TextOutput> output;
  if (const TextFolder* text = engine.text()) {
    output.emplace(
        text->tokenizer(),
        TextOutput::Options{request.split_reasoning, request.prompt.opens_thought, request.stop});
  } else if (!request.stop.empty()) {
    engine.text_or_fail();
  }

  GenerateResult result;
  result.prompt_tokens = static_cast<int64_t>(prompt.size());
  KvSequence& sequence = cache.in(engine.pages());
  result.cached_tokens = reuse(cache, sequence, prompt);
  Matrix logits(1, engine.config().vocab_size);
  result.finish_reason = FinishReason::length;
  const auto take = [&result](const TextOutput::Delta& delta) {
    result.text += delta.text;
    result.reasoning += delta.reasoning;
    result.content += delta.content;
  };
  try {
    Clock::time_point began = Clock::now();
    step(engine, cache, sequence, prompt.subspan(static_cast<size_t>(result.cached_tokens)),
         request, true, logits);
    result.prefill_seconds = seconds_since(began);

    began = Clock::now();
    while (true) {
      const int64_t position = result.prompt_tokens + static_cast<int64_t>(result.ids.size());
      const int32_t id = sampler.sample(logits.view().row_span(0), static_cast<uint64_t>(position));
      sampler.see_output(id);
      result.ids.push_back(id);
      result.decode_seconds = seconds_since(began);

      GenerateStep shown{id, {}, {}, {}};
      bool stop = ends(engine, request, id);
      if (output && !stop) {
        const TextOutput::Delta delta = output->push(id);
        take(delta);
        shown = {id, delta.text, delta.reasoning, delta.content};
        stop = delta.stopped;
      }
      if (stop) result.finish_reason = FinishReason::stop;
      if (request.on_step && !request.on_step(shown)) {
        result.finish_reason = FinishReason::cancelled;
        break;
      }
      if (stop || static_cast<int64_t>(result.ids.size()) >= limit) break;
      step(engine, cache, sequence, std::span(&id, 1), request, false, logits);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) throw;
    result.finish_reason = FinishReason::cancelled;
  }
  if (output) {
    const TextOutput::Delta rest = output->finish();
    take(rest);
    if (request.on_step && !(rest.reasoning.empty() && rest.content.empty() && rest.text.empty())) {
      request.on_step({-1, rest.text, rest.reasoning, rest.content});
    }
    result.reasoning_tokens = output->reasoning_tokens();
  }
  return result;
}

}  // namespace fathom
