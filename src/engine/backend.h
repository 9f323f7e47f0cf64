// What the engine runs: one kind of model folder, from its files to a decoder.
#pragma once

#include <memory>
#include <string>

#include "base/threads.h"
#include "cache/kv_cache.h"
#include "engine/memory_plan.h"
#include "fathom/model.h"
#include "kernels/context.h"
#include "model/decoder.h"

namespace fathom {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const ModelShape& shape() const = 0;
  // Divides the memory, loads what the division says, and tells it in `info`, where the context is
  // decided. Called once; the rest is valid afterwards.
  virtual void load(const LoadOptions& options, ModelInfo* info) = 0;
  virtual Decoder& decoder() = 0;
  virtual const std::shared_ptr<KvPagePool>& pages() const = 0;
  // Adds what only this kind of model counts.
  virtual void count(ModelStats* stats) const = 0;

  // Where the text's files lie; where the files that say so are none of Hugging Face's, also what
  // ends an answer and what stands before a raw prompt.
  virtual std::string text_folder(const std::string& folder) const { return folder; }
  virtual std::vector<int64_t> eos_ids() const { return {}; }
  virtual std::vector<int64_t> bos_ids() const { return {}; }
  // What says how many positions there are, in messages.
  virtual std::string positions_source() const { return "config.json"; }
};

// The only place that tells one kind of folder from another. Reads and checks everything but the
// text's files and the weights; all problems in one Error(input).
std::unique_ptr<Backend> open_backend(const std::string& folder, const LoadOptions& options);

// For those who write backends.

// Runs steps, and fails with the problems of all of them.
class ProblemCollector {
 public:
  // False where the step failed.
  template <typename Step>
  bool attempt(const Step& step) {
    try {
      step();
      return true;
    } catch (const Error& error) {
      problems_.emplace_back(error.what());
      return false;
    }
  }
  void fail_if_any() const;

 private:
  std::vector<std::string> problems_;
};

// Threads and kernels, chosen by the options and told in `info`.
struct Machine {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<KernelContext> context;
};
void choose_machine(const LoadOptions& options, ModelInfo* info);
Machine start_machine(const ModelInfo& info);

int64_t row_chunk_of(const LoadOptions& options);
KvFormat kv_format_of(KvPrecision precision);
// What options and `info` say of the needs; the weights' own are the caller's. `tied`: the head is
// the embedding, and then both have one precision, or it is Error(usage).
MemoryNeeds common_needs(const LoadOptions& options, const ModelInfo& info,
                         const std::string& folder, bool tied);
void tell_plan(const MemoryPlan& plan, ModelInfo* info);
// Pages for the sequences that were planned, and for more where memory is left over.
std::shared_ptr<KvPagePool> make_pages(const KvCacheLayout& layout, const MemoryPlan& plan);

}  // namespace fathom
