// Many generations at once: every pass over the model takes each of them one token further (or
// through its prompt), so that what is read of the model is read once for all.
//
//   fathom::Scheduler scheduler(model, {.parallel = 8});
//   scheduler.add(request, 1, [](int64_t sample, fathom::GenerateResult&& result) { ... });
//   while (scheduler.step()) {
//   }
//
// One thread owns a scheduler and its model; all callbacks come on it, from within add(), step()
// and cancel_all(). They may call add() and cancel(). What a request gets is what it would get
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "fathom/model.h"

namespace fathom {

struct SchedulerOptions {
  int64_t parallel = 8;  // most sequences at once; the others wait
  // Most rows (tokens) of one pass: longer prompts go in several passes, each of which reads the
  // model. 0: no limit for one prompt; several are begun together up to a few thousand rows.
  int64_t sweep_rows = 0;
  // Most rows of prompts in a pass while other sequences decode, so that a long prompt does not
  // keep them waiting. 0: few where experts are in memory; where they are on disk as many as make
  // the pass worth its reading, and the decoding sequences get passes of their own in between.
  int64_t shared_prompt_rows = 0;
  // Keep the cache pages of finished sequences, as long as no others need them, for requests whose
  // prompts begin with the same tokens. Changes no token.
  bool prefix_cache = true;
  // Called between layers, which may take seconds each: the place to look for new requests, and to
  // cancel some. A pass whose requests are all cancelled is given up there.
  std::function<void()> between_layers = {};
};

struct SchedulerStatus {
  int64_t running = 0;  // sequences in the next pass
  int64_t waiting = 0;
  uint64_t passes = 0;
  uint64_t rows = 0;       // of all passes: prompts' tokens, decoded ones and drafts
  uint64_t generated = 0;  // tokens
  uint64_t drafts = 0;
  uint64_t accepted = 0;
  uint64_t preemptions = 0;  // sequences put back because the cache was full; they go on later
  // Of prompts: what was asked for, and what of it was found in finished or running sequences.
  uint64_t prompt_tokens = 0;
  uint64_t prefix_hits = 0;    // prompts of which something was found
  uint64_t prefix_tokens = 0;  // found
  // Pages of the key-value cache.
  int64_t pages_in_use = 0;
  int64_t pages_kept = 0;  // of them, entries for later requests alone hold
  int64_t pages_total = 0;
  int64_t page_positions = 0;  // tokens of one page
};

class Scheduler {
 public:
  // Called once for every sample of a request; result.error says what it failed of.
  using OnFinish = std::function<void(int64_t sample, GenerateResult&& result)>;

  // The model must outlive the scheduler.
  explicit Scheduler(Model& model, SchedulerOptions options = {});
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();  // what is unfinished gets no call

  // Takes a request for `samples` samples (choices sampling.choice, + 1, ...) of one prompt, which
  // is computed once. Throws Error for a request that cannot be computed; nothing else changes
  // then. The request's cancel token and cache must live until it has finished; a cache serves one
  // request at a time and is left with sample 0.
  uint64_t add(GenerateRequest request, int64_t samples, OnFinish on_finish);
  // Ends all samples of a request at the next step, with FinishReason::cancelled. An id that has
  // finished is left alone.
  void cancel(uint64_t id);
  // The same for everything, now.
  void cancel_all();

  // One pass over the model; false where nothing is left to do. When `stop` is cancelled, the pass
  // is given up between layers (and experts) without effect, and true comes back: a later step()
  // goes on, cancel_all() ends it. An error of the pass itself (a disk that cannot be read) is the
  // result of all requests in it, and the others go on.
  bool step(const CancelToken* stop = nullptr);

  SchedulerStatus status() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fathom
