// Generation for callers that wait for it: a scheduler of their own.
#include "engine/generate.h"

#include "base/error.h"
#include "engine/scheduler.h"

namespace fathom {
namespace {

std::vector<GenerateResult> finish(SequenceScheduler& scheduler,
                                   std::vector<GenerateResult>& results) {
  while (scheduler.step(nullptr)) {
  }
  return std::move(results);
}

}  // namespace

ModelParts parts_of(Engine& engine, SpeculationJudge& judge) {
  ModelParts parts;
  parts.model = &engine.model();
  parts.pages = engine.pages();
  parts.defaults = &engine.generation_config();
  parts.text = engine.text();
  if (parts.text != nullptr) {
    parts.formats = std::make_shared<FormatCompiler>(parts.text->tokenizer());
  }
  parts.context = &engine.info().context;
  parts.folder = engine.info().folder;
  parts.judge = &judge;
  parts.experts_on_disk = engine.info().experts_on_disk;
  parts.most_prompt_rows = engine.info().prefill_chunk;
  return parts;
}

GenerateResult generate(const ModelParts& parts, const GenerateRequest& request) {
  std::vector<GenerateResult> results = generate_samples(parts, request, 1, 1);
  if (results[0].error) throw Error(*results[0].error);
  return std::move(results[0]);
}

std::vector<GenerateResult> generate_samples(const ModelParts& parts,
                                             const GenerateRequest& request, int64_t count,
                                             int64_t parallel) {
  SequenceScheduler scheduler(parts, {.parallel = parallel, .prefix_cache = false});
  std::vector<GenerateResult> results(static_cast<size_t>(count > 0 ? count : 0));
  scheduler.add(request, count, [&results](int64_t sample, GenerateResult&& result) {
    results[static_cast<size_t>(sample)] = std::move(result);
  });
  return finish(scheduler, results);
}

std::vector<GenerateResult> generate_each(const ModelParts& parts,
                                          std::span<const GenerateRequest> requests,
                                          int64_t parallel) {
  SequenceScheduler scheduler(parts, {.parallel = parallel});
  std::vector<GenerateResult> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    try {
      scheduler.add(requests[i], 1, [&results, i](int64_t, GenerateResult&& result) {
        results[i] = std::move(result);
      });
    } catch (const Error& error) {
      results[i].finish_reason = FinishReason::error;
      results[i].error = error;
    }
  }
  return finish(scheduler, results);
}

}  // namespace fathom
