// One sample of a request on its way: its ids, cache, sampler and text.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/model_parts.h"
#include "engine/output_format.h"
#include "engine/prefix_cache.h"
#include "engine/text_output.h"
#include "fathom/scheduler.h"
#include "model/sweep.h"
#include "sample/sampler.h"

namespace fathom {

// What a prompt's computation leaves for the other samples of a request.
struct ComputedPrompt {
  KvSequence cache;  // the whole prompt
  Matrix logits;     // [1, vocab] after its last token
  Matrix hidden;     // [1, hidden] likewise; empty where nothing is drafted
  int64_t mtp_length = 0;
};

// A request and what its samples share.
struct RequestGroup {
  uint64_t id = 0;
  GenerateRequest request;
  Scheduler::OnFinish on_finish;
  bool cancelled = false;
  int64_t waiting = 0;     // samples that have not begun
  bool computing = false;  // a sample is on the prompt
  std::optional<ComputedPrompt> prompt;
  std::vector<PositionLogprobs> prompt_logprobs;  // of the ids from the second on, so far

  bool is_cancelled() const {
    return cancelled || (request.cancel != nullptr && request.cancel->cancelled());
  }
};

class Sequence {
 public:
  Sequence(const ModelParts& parts, std::shared_ptr<RequestGroup> group, int64_t sample);

  RequestGroup& group() const { return *group_; }
  KvSequence& cache() const { return *cache_; }
  bool finished() const { return finished_; }
  bool speculates() const { return speculates_; }
  // The prompt (or, after preempt(), all so far) still has to be computed.
  bool prefilling() const { return prefilling_; }
  // Known tokens that are not cached; one while decoding.
  int64_t pending() const { return static_cast<int64_t>(known_.size()) - cache_->length(); }
  // Pages that it will still take from the pool: for its pending tokens and about a page of those
  // that follow, where so many follow.
  int64_t pages_soon() const;
  int64_t generated() const { return static_cast<int64_t>(result_.ids.size()); }
  // The same without what GenerateRequest::resume brought.
  int64_t sampled() const { return generated() - result_.resumed_tokens; }

  // Finds out what of the prompt is cached already, or in another sequence that `find` knows for
  // the tokens it is given. May be called again before the first pass. What is resumed may have
  // come to its end: then it is finished.
  using FindPrefix = std::function<std::optional<SharedPrefix>(std::span<const int32_t>)>;
  void begin(const FindPrefix& find);
  // Tokens that begin() has taken from another sequence.
  int64_t adopted() const { return adopted_; }
  // It does not begin yet after all: gives back what was adopted.
  void put_back();
  // What it has cached, for others.
  SharedPrefix cached() const { return {state_->ids, cache_, state_->mtp_length, 0}; }
  // Begins after a prompt that another sample has computed, and samples its first token.
  void begin_from(const ComputedPrompt& prompt);
  // Gives its cache back; begin() computes everything again, with the same results.
  void preempt();

  // Rows of the next pass, where it may have `most`: pending tokens, and a draft where there is
  // one and it is wanted.
  int64_t plan(int64_t most, bool with_draft);
  int64_t planned_rows() const { return planned_ + drafts_; }
  bool planned_draft() const { return drafts_ > 0; }
  // Logits wanted of the pass: none before the end of a prompt.
  int64_t planned_logits() const { return reaches_end_ ? 1 + drafts_ : 0; }
  // Whether the final hidden states of all its rows are wanted, or only of those with logits.
  bool wants_all_hidden() const { return speculates_ || planned_prompt_logits() > 0; }
  // Rows from the first one on whose logits are to be told to tell_prompt().
  int64_t planned_prompt_logits() const;
  // `logits`: of the pass's rows from `first` on.
  void tell_prompt(int64_t first, Span2d<const float> logits);
  void add_rows(Sweep& sweep);
  // The pass has failed or was given up.
  void undo_pass();
  void prefill_progress(double share_of_pass);

  // The pass is done. `logits`: planned_logits() rows, scratch. Samples, verifies the draft, and
  // leaves in the cache what was accepted. Returns the number of tokens sampled.
  int64_t finish_pass(Span2d<float> logits);

  // Drafting. `hidden`: final hidden states of the pass's rows; valid until the next pass.
  void keep_hidden(Span2d<const float> hidden);
  // Positions whose hidden state and next token are known and which the MTP layer has not seen.
  int64_t mtp_first() const { return mtp_length_; }
  int64_t mtp_end() const { return speculates_ ? cache_->length() : mtp_length_; }
  int32_t token_at(int64_t position) const { return known_[static_cast<size_t>(position)]; }
  const float* hidden_at(int64_t position) const;
  bool wants_draft(int64_t position) const;
  void set_draft(std::span<float> logits);
  void mtp_done() { mtp_length_ = cache_->length(); }
  void stop_speculating();

  // For the other samples: the cache as it was after the prompt.
  ComputedPrompt computed_prompt(Matrix logits, Matrix hidden) const;

  void fail(const Error& error);
  void cancel();
  // Hands the result over; nothing may be called after it.
  void deliver();

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point began) {
    return std::chrono::duration<double>(Clock::now() - began).count();
  }

  bool take(std::span<float> logits);  // samples one token; false where it was the last one
  bool accept(int32_t id, bool resumed, std::optional<PositionLogprobs> logprobs);
  PositionLogprobs logprobs_of(std::span<const float> logits, int32_t id) const;
  // The reasoning budget is used up: the next id of </think>.
  std::optional<int32_t> closing_id() const;
  void replay();  // GenerateRequest::resume, once
  std::vector<TokenId> ending_ids() const;
  GenerateStep step_of(int32_t id, TextOutput::Delta delta) const;
  void count_call(const ToolEvent& event);
  void show(const GenerateStep& step);
  void finish(FinishReason reason);
  void adopt(const FindPrefix& find);
  void sync_ids() { sync_ids(cache_->length()); }
  void sync_ids(int64_t length);

  const ModelParts* parts_;
  std::shared_ptr<RequestGroup> group_;
  int64_t sample_;
  Sampler sampler_;
  std::optional<TextOutput> output_;
  std::vector<TokenId> ends_;             // ids that end it
  std::optional<FormatFollower> format_;  // where the answer has one
  std::vector<TokenId> closing_;          // what closes the thought where its budget is used up
  size_t closed_ = 0;                     // ids of that which were put
  int64_t limit_;                         // tokens to generate, at the most
  std::vector<int32_t> known_;            // the prompt and what was generated
  GenerateResult result_;
  size_t whole_calls_ = 0;  // of result_.tool_calls

  CacheState own_;
  CacheState* state_;  // own_, or the request's cache
  KvSequence* cache_ = nullptr;
  int64_t adopted_ = 0;

  bool finished_ = false;
  bool prefilling_ = true;
  bool replayed_ = false;
  Clock::time_point began_;  // the prompt's computation; then the decoding
  int64_t to_prefill_ = 0;   // rows that were pending when it began
  std::optional<Error> callback_error_;

  // The pass.
  int64_t planned_ = 0;  // pending tokens in it
  int64_t drafts_ = 0;   // and drafts after them
  bool reaches_end_ = false;
  int64_t start_ = 0;  // cached before it

  // Drafting.
  bool speculates_ = false;
  std::optional<int32_t> draft_;     // for the position after the last known token
  int64_t mtp_length_ = 0;           // positions that the MTP layer has cached
  Matrix prompt_hidden_;             // of a prompt computed by another sample: its last position's
  Span2d<const float> pass_hidden_;  // of position start_ and the following
};

}  // namespace fathom
