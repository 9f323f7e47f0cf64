// A loaded model and everything that computes with it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cache/kv_cache.h"
#include "checkpoint/hf_config.h"
#include "engine/backend.h"
#include "engine/text_folder.h"
#include "fathom/model.h"

namespace fathom {

class Engine {
 public:
  explicit Engine(const LoadOptions& options);

  const ModelInfo& info() const { return info_; }
  ModelStats stats() const;
  const ModelShape& shape() const { return backend_->shape(); }
  Decoder& model() { return backend_->decoder(); }
  const std::shared_ptr<KvPagePool>& pages() const { return backend_->pages(); }
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
  void open_files(const std::string& folder, const LoadOptions& options);

  ModelInfo info_;
  GenerationConfig generation_config_;
  std::optional<TextFolder> text_;
  std::unique_ptr<Backend> backend_;
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
