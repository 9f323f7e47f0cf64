#include "engine/backend.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/join.h"
#include "base/system.h"
#include "checkpoint/model_config.h"
#include "engine/deepseek_backend.h"
#include "engine/dense_backend.h"
#include "engine/graph_backend.h"
#include "kernels/dispatch.h"

namespace fathom {

std::unique_ptr<Backend> open_backend(const std::string& folder, const LoadOptions& options) {
  if (graph_contract(folder, graph_choice_of(options.graph))) {
    return open_graph_backend(folder, options);
  }
  // Where config.json cannot be read, nothing says that it is no DeepseekV3 folder; all that is
  // wrong with it comes out together.
  const std::string path = folder + "/config.json";
  std::string name;
  try {
    name = architecture_of(read_text(path, 1 << 20), path);
  } catch (const Error&) {
    return open_deepseek_backend(folder, options);
  }
  if (!is_supported_architecture(name)) fail_unsupported(name, path);
  return is_dense_architecture(name) ? open_dense_backend(folder, options)
                                     : open_deepseek_backend(folder, options);
}

void ProblemCollector::fail_if_any() const {
  if (!problems_.empty()) throw Error(ErrorKind::input, join(problems_, "\n"));
}

void choose_machine(const LoadOptions& options, ModelInfo* info) {
  info->threads = options.threads > 0 ? options.threads : system::processor_count();
  const KernelSet& kernels =
      options.kernels.empty() ? best_kernels() : kernels_named(options.kernels);
  info->kernels = kernels.name;
}

Machine start_machine(const ModelInfo& info) {
  Machine machine;
  machine.pool = std::make_unique<ThreadPool>(info.threads);
  machine.context = std::make_unique<KernelContext>(kernels_named(info.kernels), *machine.pool);
  return machine;
}

int64_t row_chunk_of(const LoadOptions& options) {
  return options.row_chunk > 0 ? options.row_chunk : kDefaultRowChunk;
}

KvFormat kv_format_of(KvPrecision precision) {
  switch (precision) {
    case KvPrecision::f32:
      return KvFormat::f32;
    case KvPrecision::bf16:
      return KvFormat::bf16;
    case KvPrecision::int8:
      return KvFormat::int8;
  }
  return KvFormat::bf16;
}

MemoryNeeds common_needs(const LoadOptions& options, const ModelInfo& info,
                         const std::string& folder, bool tied) {
  if (tied && options.head != options.embed) {
    fail_usage("{}: head and embedding are one tensor: --head and --embed must be the same",
               folder);
  }
  MemoryNeeds needs;
  needs.tied = tied;
  needs.int8_head = options.head == WeightPrecision::int8;
  needs.int8_embedding = options.embed == WeightPrecision::int8;
  needs.context = info.context.tokens;
  needs.sequences = std::max<int64_t>(options.sequences, 1);
  needs.row_chunk = row_chunk_of(options);
  needs.prefill_chunk = options.prefill_chunk;
  needs.threads = info.threads;
  needs.scratch_per_thread = KernelContext::kScratchBytes;
  needs.most_slots = options.cache_slots;
  return needs;
}

void tell_plan(const MemoryPlan& plan, ModelInfo* info) {
  info->memory_budget = plan.budget.bytes;
  info->memory_reason = plan.budget.reason;
  info->memory = plan.shares;
  info->prefill_chunk = plan.prefill_chunk;
  info->experts_on_disk = plan.experts == ExpertsPlace::disk;
}

std::shared_ptr<KvPagePool> make_pages(const KvCacheLayout& layout, const MemoryPlan& plan) {
  // What a budget leaves over beside resident weights may hold more sequences.
  const uint64_t left = plan.budget.bytes - plan.needed();
  const uint64_t more =
      plan.experts == ExpertsPlace::memory ? left / static_cast<uint64_t>(layout.page_bytes()) : 0;
  constexpr uint64_t kMostPages = uint64_t{1} << 40;
  return std::make_shared<KvPagePool>(
      layout, plan.kv_pages + static_cast<int64_t>(std::min(more, kMostPages)));
}

}  // namespace fathom
