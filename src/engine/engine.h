// A loaded model and everything that computes with it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/threads.h"
#include "cache/kv_cache.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "engine/memory_plan.h"
#include "engine/text_folder.h"
#include "experts/expert_store.h"
#include "experts/route_trace.h"
#include "fathom/model.h"
#include "kernels/context.h"
#include "model/deepseek/forward.h"

namespace fathom {

class Engine {
 public:
  explicit Engine(const LoadOptions& options);
  ~Engine();

  const ModelInfo& info() const { return info_; }
  ModelStats stats() const;
  const DeepseekConfig& config() const { return config_; }
  DeepseekModel& model() { return *model_; }
  const std::shared_ptr<KvPagePool>& pages() const { return pages_; }
  const GenerationConfig& generation_config() const { return generation_config_; }
  // nullptr where the folder has no tokenizer.
  const TextFolder* text() const { return text_ ? &*text_ : nullptr; }
  // The same, or Error(input).
  const TextFolder& text_or_fail() const;

  // Error(usage) naming the first id outside the vocabulary.
  void check_ids(std::span<const int32_t> ids) const;
  // Takes a begun sweep through all layers. On cancellation its sequences are cut back to their
  // length before the sweep, and the error goes on to the caller.
  void run(Sweep& sweep, const CancelToken* cancel, const std::function<void(double)>& on_progress,
           const SweepTrace& trace = {});

 private:
  // Reads everything but the weights, into the members; all problems in one Error(input).
  Checkpoint open_files(const std::string& folder, const LoadOptions& options);
  // Divides the memory and loads what the division says.
  void load(const Checkpoint& checkpoint, const LoadOptions& options);
  KvCacheLayout kv_layout(const LoadOptions& options) const;
  MemoryPlan plan(const Checkpoint& checkpoint, const LoadOptions& options, WeightChoice* choice);
  std::unique_ptr<ExpertStore> open_experts(const Checkpoint& checkpoint,
                                            const LoadOptions& options, const MemoryPlan& plan);

  ModelInfo info_;
  DeepseekConfig config_;
  GenerationConfig generation_config_;
  std::optional<TextFolder> text_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<KernelContext> context_;
  DeepseekWeights weights_;
  std::unique_ptr<ExpertStore> experts_;
  std::unique_ptr<DeepseekModel> model_;
  std::shared_ptr<KvPagePool> pages_;
  std::unique_ptr<RouteTraceWriter> expert_trace_;
  bool checkpoint_has_mtp_ = false;
};

// A sequence's cache and the ids it holds, behind the public Cache.
struct CacheState {
  std::shared_ptr<KvPagePool> pool;  // outlives the pages
  std::optional<KvSequence> sequence;
  std::vector<int32_t> ids;  // empty where the cache was filled from embeddings
  // Positions from 0 on that the MTP layer has cached too, each computed with the token of `ids`
  // that follows it.
  int64_t mtp_length = 0;

  // The sequence, made on first use. A cache belongs to the model it was first used with:
  // Error(usage) otherwise.
  KvSequence& in(const std::shared_ptr<KvPagePool>& pages);
};

struct CacheAccess {
  static CacheState& of(Cache& cache) { return *cache.state_; }
};

ForwardOutput forward(Engine& engine, const ForwardInput& input, CacheState& cache);

}  // namespace fathom
