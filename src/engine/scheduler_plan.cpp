// What a scheduler puts into its next pass: who is admitted, how many rows everybody gets, and
// where pages for them come from.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "engine/scheduler.h"

namespace fathom {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Prompts of several requests go together up to so many rows: a row takes two to three hidden
// states of memory, and beyond a few hundred rows every expert is read anyway.
constexpr int64_t kJointPromptRows = 4096;

// Prompts' rows beside decoding sequences. With all experts in memory a row costs its own time; on
// disk a pass of so many rows reads nearly every expert, and more rows hardly read more.
constexpr int64_t kSharedRowsInMemory = 64;
constexpr int64_t kSharedRowsOnDisk = 512;

}  // namespace

int64_t SequenceScheduler::free_pages() const {
  return parts_.pages->max_pages() - parts_.pages->pages_in_use();
}

// What was kept for later requests goes first.
bool SequenceScheduler::make_room(const std::function<int64_t()>& pages_needed) {
  while (pages_needed() > free_pages()) {
    if (!parts_.prefixes->drop_oldest()) return false;
  }
  return true;
}

void SequenceScheduler::admit() {
  while (static_cast<int64_t>(running_.size()) < options_.parallel) {
    // Samples whose prompt is being computed wait for it; the others do not wait for them.
    const auto next = std::find_if(waiting_.begin(), waiting_.end(), [](const auto& sequence) {
      return sequence->group().prompt || !sequence->group().computing;
    });
    if (next == waiting_.end()) return;
    if (!admit(static_cast<size_t>(next - waiting_.begin()))) return;
  }
}

std::optional<SharedPrefix> SequenceScheduler::find_prefix(std::span<const int32_t> known) {
  if (!options_.prefix_cache) return std::nullopt;
  std::optional<SharedPrefix> best = parts_.prefixes->find(known);
  for (const auto& sequence : running_) {
    SharedPrefix other = sequence->cached();
    other.same = usable_tokens(other, known);
    if (other.same > (best ? best->same : 0)) best = other;
  }
  return best;
}

// False where there is no room for it yet.
bool SequenceScheduler::admit(size_t index) {
  Sequence& sequence = *waiting_[index];
  RequestGroup& group = sequence.group();
  const bool fork = group.prompt.has_value() && sequence.generated() == 0;
  if (!fork) {
    sequence.begin([this](std::span<const int32_t> known) { return find_prefix(known); });
  }
  const bool over = sequence.finished();  // what it resumes was complete
  const auto pages_needed = [&] {
    int64_t pages = fork ? 2 : sequence.cache().pages_to_prepare(sequence.pending());
    for (const auto& other : running_) pages += other->pages_soon();
    return pages;
  };
  if (!over && !make_room(pages_needed) && !running_.empty()) {
    if (!fork) sequence.put_back();
    return false;
  }
  running_.push_back(std::move(waiting_[index]));
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
  --group.waiting;
  if (fork) {
    sequence.begin_from(*group.prompt);
    ++status_.generated;
    if (group.waiting == 0) group.prompt.reset();
  } else if (!over) {
    group.computing = sequence.generated() == 0;
    if (sequence.adopted() > 0 && sequence.sampled() == 0) {
      ++status_.prefix_hits;
      status_.prefix_tokens += static_cast<uint64_t>(sequence.adopted());
    }
  }
  // One token may have been all.
  remove_finished();
  return true;
}

void SequenceScheduler::preempt_last() {
  std::unique_ptr<Sequence> last = std::move(running_.back());
  running_.pop_back();
  if (last->prefilling() && last->generated() == 0) last->group().computing = false;
  last->preempt();
  ++last->group().waiting;
  waiting_.push_front(std::move(last));
  ++status_.preemptions;
}

// Rows of prompts in the next pass: all that a pass may have, unless others would wait for it.
int64_t SequenceScheduler::prompt_rows() {
  int64_t prompts = 0;
  int64_t decoding = 0;
  for (const auto& sequence : running_) ++(sequence->prefilling() ? prompts : decoding);
  if (prompts == 0 || decoding == 0) decoding_is_owed_ = 0;
  if (decoding == 0) return prompts > 1 ? kJointPromptRows : kUnlimited;
  // On disk a pass with prompts is long: those who decode get as much time for themselves.
  if (decoding_is_owed_ > 0) return 0;
  if (options_.shared_prompt_rows > 0) return options_.shared_prompt_rows;
  return parts_.experts_on_disk ? kSharedRowsOnDisk : kSharedRowsInMemory;
}

// After a pass of so many seconds.
void SequenceScheduler::settle_debt(double seconds) {
  if (!parts_.experts_on_disk || decode_rows_ == 0) return;
  decoding_is_owed_ += prompt_rows_ > 0 ? seconds : -seconds;
}

// Decoding sequences come first: they need one row each, and others wait for their answers. Prompts
// share what is left, the short ones first, so that no long one keeps them waiting.
void SequenceScheduler::plan_rows(bool with_drafts) {
  const int64_t most = options_.sweep_rows > 0 ? options_.sweep_rows : kUnlimited;
  decode_rows_ = prompt_rows_ = 0;
  std::vector<Sequence*> prompts;
  for (const auto& sequence : running_) {
    if (sequence->prefilling()) {
      prompts.push_back(sequence.get());
    } else {
      decode_rows_ += sequence->plan(most - decode_rows_, with_drafts);
    }
  }
  std::stable_sort(prompts.begin(), prompts.end(), [](const Sequence* a, const Sequence* b) {
    return a->pending() < b->pending();
  });
  int64_t left = std::min(most - decode_rows_, prompt_rows());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto others = static_cast<int64_t>(prompts.size() - i);
    const int64_t share = left == kUnlimited ? left : (left + others - 1) / others;
    const int64_t rows = prompts[i]->plan(share, with_drafts);
    prompt_rows_ += rows;
    if (left != kUnlimited) left -= rows;
  }
}

void SequenceScheduler::plan() {
  bool with_drafts = parts_.judge->drafts();
  const auto pages_needed = [this] {
    int64_t pages = 0;
    for (const auto& sequence : running_) {
      pages += sequence->cache().pages_to_prepare(sequence->planned_rows());
    }
    return pages;
  };
  while (!running_.empty()) {
    plan_rows(with_drafts);
    if (make_room(pages_needed)) break;
    if (with_drafts) {
      with_drafts = false;
    } else if (running_.size() > 1) {
      preempt_last();
    } else {
      running_.back()->fail(
          Error(ErrorKind::input,
                fmt::format("the key-value cache is full: {} of {} pages of {} positions are in "
                            "use, and {} more are needed",
                            parts_.pages->pages_in_use(), parts_.pages->max_pages(), kPagePositions,
                            pages_needed())));
      remove_finished();
    }
  }
  comparable_ = true;
  int64_t drafted = 0;
  decoding_ = static_cast<int64_t>(running_.size());
  for (const auto& sequence : running_) {
    if (sequence->prefilling() || !sequence->speculates()) comparable_ = false;
    if (sequence->planned_draft()) ++drafted;
  }
  all_drafted_ = drafted > 0;
  if (drafted != 0 && drafted != decoding_) comparable_ = false;
}

}  // namespace fathom
