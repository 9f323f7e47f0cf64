#include "engine/scheduler.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"
#include "engine/request_check.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

SequenceScheduler::SequenceScheduler(const ModelParts& parts, SchedulerOptions options)
    : parts_(parts), options_(std::move(options)) {
  if (options_.parallel < 1) {
    fail_usage("parallel: {} is less than 1", options_.parallel);
  }
  const int64_t most = parts_.model->abilities().most_sequences;
  if (most > 0) options_.parallel = std::min(options_.parallel, most);
  if (options_.sweep_rows < 0) fail_usage("sweep_rows: {} is negative", options_.sweep_rows);
  if (options_.shared_prompt_rows < 0) {
    fail_usage("shared_prompt_rows: {} is negative", options_.shared_prompt_rows);
  }
  if (!parts_.model->abilities().prefix_sharing) options_.prefix_cache = false;
  if (options_.sweep_rows == 0) options_.sweep_rows = parts_.most_prompt_rows;
}

// What was kept is of use as long as requests come.
SequenceScheduler::~SequenceScheduler() {
  if (options_.prefix_cache) parts_.prefixes->clear();
}

uint64_t SequenceScheduler::add(GenerateRequest request, int64_t samples,
                                Scheduler::OnFinish on_finish) {
  if (samples < 1) fail_usage("samples: {} is less than 1", samples);
  check_request(parts_, request);
  if (samples > 1 && !request.resume.empty()) fail_usage("resume: an answer is one sample");
  if (request.cache != nullptr) {
    const auto uses = [&](const std::unique_ptr<Sequence>& sequence) {
      return sequence->group().request.cache == request.cache;
    };
    if (std::any_of(running_.begin(), running_.end(), uses) ||
        std::any_of(waiting_.begin(), waiting_.end(), uses)) {
      fail_usage("this cache is in use by another request");
    }
  }
  auto group = std::make_shared<RequestGroup>();
  group->id = next_id_;
  group->request = std::move(request);
  group->on_finish = std::move(on_finish);
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int64_t sample = 0; sample < samples; ++sample) {
    sequences.push_back(std::make_unique<Sequence>(parts_, group, sample));
  }
  group->waiting = samples;
  status_.prompt_tokens += group->request.prompt.ids.size();
  for (auto& sequence : sequences) waiting_.push_back(std::move(sequence));
  return next_id_++;
}

void SequenceScheduler::cancel(uint64_t id) {
  const auto mark = [id](const std::unique_ptr<Sequence>& sequence) {
    if (sequence->group().id == id) sequence->group().cancelled = true;
  };
  std::for_each(running_.begin(), running_.end(), mark);
  std::for_each(waiting_.begin(), waiting_.end(), mark);
}

void SequenceScheduler::cancel_all() {
  for (const auto& sequence : running_) sequence->group().cancelled = true;
  for (const auto& sequence : waiting_) sequence->group().cancelled = true;
  drop_cancelled();
}

SchedulerStatus SequenceScheduler::status() const {
  SchedulerStatus status = status_;
  status.running = static_cast<int64_t>(running_.size());
  status.waiting = static_cast<int64_t>(waiting_.size());
  status.pages_in_use = parts_.pages->pages_in_use();
  status.pages_kept = parts_.prefixes->pages();
  status.pages_total = parts_.pages->max_pages();
  status.page_positions = kPagePositions;
  return status;
}

bool SequenceScheduler::step(const CancelToken* stop) {
  drop_cancelled();
  admit();
  plan();
  const Clock::time_point began = Clock::now();
  if (run(stop)) {
    sample();
    const double seconds = seconds_since(began);
    const Clock::time_point mtp_began = Clock::now();
    draft(stop);
    record(seconds, seconds_since(mtp_began));
    settle_debt(seconds_since(began));
    share_prompts();
  }
  sweep_ = {};
  final_ = {};
  drop_cancelled();
  return !running_.empty() || !waiting_.empty();
}

// A sequence that has waited all along is delivered like one that has run.
void SequenceScheduler::drop_cancelled() {
  for (const auto& sequence : running_) {
    if (sequence->group().is_cancelled()) sequence->cancel();
  }
  remove_finished();
  Sequences dropped;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!(*at)->group().is_cancelled()) {
      ++at;
      continue;
    }
    --(*at)->group().waiting;
    dropped.push_back(std::move(*at));
    at = waiting_.erase(at);
  }
  for (const auto& sequence : dropped) {
    sequence->cancel();
    sequence->deliver();
  }
}

// Results are handed over when nothing of the scheduler is in the middle of anything.
void SequenceScheduler::remove_finished() {
  Sequences finished;
  for (auto& sequence : running_) {
    if (sequence->finished()) finished.push_back(std::move(sequence));
  }
  std::erase(running_, nullptr);
  for (const auto& sequence : finished) {
    // Whoever still waits for the prompt computes it.
    if (sequence->prefilling()) sequence->group().computing = false;
    if (options_.prefix_cache) parts_.prefixes->keep(sequence->cached());
    sequence->deliver();
  }
}

bool SequenceScheduler::all_cancelled() const {
  return std::all_of(running_.begin(), running_.end(), [](const auto& sequence) {
    return sequence->planned_rows() == 0 || sequence->group().is_cancelled();
  });
}

// The token that stops all of the pass, looked at even between experts.
const CancelToken* SequenceScheduler::common_token() const {
  const CancelToken* token = running_.front()->group().request.cancel;
  const bool common = std::all_of(running_.begin(), running_.end(), [token](const auto& sequence) {
    return sequence->group().request.cancel == token;
  });
  return common ? token : nullptr;
}

bool SequenceScheduler::run(const CancelToken* stop) {
  if (running_.empty()) return false;
  sweep_ = {};
  for (const auto& sequence : running_) sequence->add_rows(sweep_);
  if (sweep_.rows.empty()) return false;
  const auto layers = static_cast<double>(parts_.model->shape().num_hidden_layers);
  const CancelToken* token = stop != nullptr ? stop : common_token();
  const auto progress = [this](double share) {
    for (const auto& sequence : running_) sequence->prefill_progress(share);
  };
  try {
    parts_.model->begin(sweep_);
    while (parts_.model->advance(sweep_, token)) {
      progress(static_cast<double>(sweep_.next_layer) / layers);
      if (options_.between_layers) options_.between_layers();
      if (all_cancelled()) {
        for (const auto& sequence : running_) sequence->undo_pass();
        return false;
      }
    }
    progress(1.0);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled && token != nullptr && token->cancelled()) {
      for (const auto& sequence : running_) sequence->undo_pass();
    } else {
      fail_pass(error);
    }
    return false;
  } catch (const std::bad_alloc&) {
    fail_pass(
        Error(ErrorKind::io, fmt::format("out of memory in a pass of {} rows", sweep_.size())));
    return false;
  }
  ++status_.passes;
  status_.rows += static_cast<uint64_t>(sweep_.size());
  return true;
}

void SequenceScheduler::fail_pass(const Error& error) {
  for (const auto& sequence : running_) {
    if (sequence->planned_rows() == 0) continue;
    sequence->undo_pass();
    sequence->fail(error);
  }
}

void SequenceScheduler::sample() {
  const int64_t width = parts_.model->shape().hidden_size;
  int64_t wanting = 0;
  int64_t logit_rows = 0;
  for (const SweepRow& row : sweep_.rows) wanting += row.wants_logits;
  for (const auto& sequence : running_) logit_rows += sequence->planned_logits();
  final_ = Matrix(wanting, width);
  parts_.model->final_hidden(sweep_, final_);
  sweep_ = {};  // the memory of a long prompt

  // The rows that want logits are the last ones of each sequence's.
  Matrix last(logit_rows, width);
  int64_t from = 0;
  int64_t to = 0;
  for (const auto& sequence : running_) {
    const int64_t rows =
        sequence->wants_all_hidden() ? sequence->planned_rows() : sequence->planned_logits();
    const int64_t logits = sequence->planned_logits();
    for (int64_t i = rows - logits; i < rows; ++i) {
      std::copy_n(final_.row(from + i), width, last.row(to++));
    }
    if (sequence->speculates()) sequence->keep_hidden(final_.view().middle_rows(from, rows));
    tell_prompt(*sequence, final_.view().middle_rows(from, rows));
    from += rows;
  }
  Matrix logits(logit_rows, parts_.model->shape().vocab_size);
  if (logit_rows > 0) parts_.model->head(last, logits);

  sampled_ = 0;
  int64_t at = 0;
  // Callbacks may add requests, which do not touch running_.
  for (const auto& sequence : running_) {
    const int64_t rows = sequence->planned_logits();
    if (sequence->planned_rows() == 0) continue;
    if (rows > 0 && sequence->prefilling() && sequence->generated() == 0) {
      keep_prompt(*sequence, logits.view().middle_rows(at, 1), last.view().middle_rows(at, 1));
    }
    const int64_t drafts = sequence->planned_draft() ? 1 : 0;
    const int64_t tokens = sequence->finish_pass(logits.view().middle_rows(at, rows));
    sampled_ += tokens;
    status_.drafts += static_cast<uint64_t>(drafts);
    status_.accepted += static_cast<uint64_t>(std::max<int64_t>(0, tokens - 1));
    at += rows;
  }
  status_.generated += static_cast<uint64_t>(sampled_);
}

// A vocabulary's logits are large: a long prompt's come in pieces.
void SequenceScheduler::tell_prompt(Sequence& sequence, Span2d<const float> hidden) {
  constexpr int64_t kRows = 32;
  const int64_t wanted = sequence.planned_prompt_logits();
  for (int64_t first = 0; first < wanted; first += kRows) {
    const int64_t count = std::min(kRows, wanted - first);
    Matrix rows(count, hidden.cols);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(hidden.row(first + i), hidden.cols, rows.row(i));
    }
    Matrix logits(count, parts_.model->shape().vocab_size);
    parts_.model->head(rows, logits);
    sequence.tell_prompt(first, logits.view());
  }
}

// The samples that wait for this prompt get a copy of its logits before they are sampled from.
void SequenceScheduler::keep_prompt(Sequence& sequence, Span2d<const float> logits,
                                    Span2d<const float> hidden) {
  sequence.group().computing = false;
  if (sequence.group().waiting == 0 || !parts_.model->abilities().prefix_sharing) return;
  KeptPrompt kept{&sequence, Matrix(1, logits.cols), {}};
  std::copy_n(logits.row(0), logits.cols, kept.logits.row(0));
  if (sequence.speculates()) {
    kept.hidden = Matrix(1, hidden.cols);
    std::copy_n(hidden.row(0), hidden.cols, kept.hidden.row(0));
  }
  kept_.push_back(std::move(kept));
}

// After drafting: until then the prompt's pages are written for the MTP layer.
void SequenceScheduler::share_prompts() {
  for (KeptPrompt& kept : kept_) {
    kept.sequence->group().prompt.emplace(
        kept.sequence->computed_prompt(std::move(kept.logits), std::move(kept.hidden)));
  }
  kept_.clear();
}

void SequenceScheduler::record(double seconds, double mtp_seconds) {
  if (!comparable_ || sampled_ == 0) return;
  parts_.judge->record({all_drafted_, decoding_, sampled_, seconds, mtp_seconds});
}

}  // namespace fathom
