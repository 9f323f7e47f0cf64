// Continuous batching: one merged sweep per step, with the prompts of new sequences and the tokens
// and drafts of running ones.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "engine/model_parts.h"
#include "engine/sequence.h"
#include "fathom/scheduler.h"

namespace fathom {

// See fathom/scheduler.h, of which this is the inside.
class SequenceScheduler {
 public:
  SequenceScheduler(const ModelParts& parts, SchedulerOptions options);
  SequenceScheduler(const SequenceScheduler&) = delete;
  SequenceScheduler& operator=(const SequenceScheduler&) = delete;
  ~SequenceScheduler();

  uint64_t add(GenerateRequest request, int64_t samples, Scheduler::OnFinish on_finish);
  void cancel(uint64_t id);
  void cancel_all();
  bool step(const CancelToken* stop);
  SchedulerStatus status() const;

 private:
  using Sequences = std::vector<std::unique_ptr<Sequence>>;

  // Before a pass.
  void drop_cancelled();
  void admit();
  bool admit(size_t waiting_index);
  std::optional<SharedPrefix> find_prefix(std::span<const int32_t> known);
  void plan();
  void plan_rows(bool with_drafts);
  int64_t prompt_rows();
  void settle_debt(double seconds);
  int64_t free_pages() const;
  bool make_room(const std::function<int64_t()>& pages_needed);
  void preempt_last();

  // The pass, and what comes of it. run() is false where it has failed or was given up.
  bool run(const CancelToken* stop);
  void fail_pass(const Error& error);
  bool all_cancelled() const;
  const CancelToken* common_token() const;
  void sample();
  void tell_prompt(Sequence& sequence, Span2d<const float> hidden);
  void keep_prompt(Sequence& sequence, Span2d<const float> logits, Span2d<const float> hidden);
  void share_prompts();
  void record(double seconds, double mtp_seconds);

  // The MTP layer for the rows of the pass, and the next drafts.
  void draft(const CancelToken* stop);
  struct MtpRow {
    Sequence* sequence;
    int64_t position;
  };
  void draft_rows(std::span<const MtpRow> rows, const CancelToken* stop);
  std::vector<MtpRow> mtp_rows();

  void remove_finished();

  ModelParts parts_;
  SchedulerOptions options_;
  uint64_t next_id_ = 1;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  Sequences running_;  // in order of admission

  Sweep sweep_;
  Matrix final_;  // final hidden states of the pass's rows that want them
  // What other samples of a request get of a prompt that this pass has computed.
  struct KeptPrompt {
    Sequence* sequence;
    Matrix logits;
    Matrix hidden;
  };
  std::vector<KeptPrompt> kept_;
  int64_t sampled_ = 0;  // tokens, in this pass
  // The pass consisted of decoding sequences, all of them with a draft or none.
  bool comparable_ = false;
  bool all_drafted_ = false;
  int64_t decoding_ = 0;
  int64_t decode_rows_ = 0;
  int64_t prompt_rows_ = 0;
  // Seconds that prompts have had while others decoded, less those that these had for themselves.
  double decoding_is_owed_ = 0;
  SchedulerStatus status_;
};

}  // namespace fathom
