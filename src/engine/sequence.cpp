#include "engine/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "engine/guarded.h"
#include "engine/request_check.h"

namespace fathom {
namespace {

// Where a measured decision stands behind drafting, this many positions at the most are computed
// again so that the MTP layer sees them.
constexpr int64_t kMostRecomputed = 64;

std::vector<TokenId> closing_ids(const Tokenizer& tokenizer) {
  const auto tag = ReasoningSplitter::tags_of(tokenizer).close;
  if (tag) return {*tag};
  return tokenizer.encode("</think>", ControlTokens::as_text);
}

}  // namespace

Sequence::Sequence(const ModelParts& parts, std::shared_ptr<RequestGroup> group, int64_t sample)
    : parts_(&parts),
      group_(std::move(group)),
      sample_(sample),
      sampler_(resolve(group_->request.sampling, *parts.defaults),
               group_->request.sampling.choice + static_cast<uint64_t>(sample)),
      known_(group_->request.prompt.ids) {
  const GenerateRequest& request = group_->request;
  const int64_t room = parts.context->tokens - static_cast<int64_t>(known_.size());
  limit_ = request.max_tokens > 0 ? std::min(request.max_tokens, room) : room;
  sampler_.see_prompt(known_);
  const ReasoningSplitter::Start start = start_of(request.prompt);
  if (parts.text != nullptr) {
    const Tokenizer& tokenizer = parts.text->tokenizer();
    output_.emplace(tokenizer,
                    TextOutput::Options{request.split_reasoning, start_of(request.prompt),
                                        request.stop, request.parse_tool_calls});
    if (request.reasoning_budget) closing_ = closing_ids(tokenizer);
  }
  ends_ = ending_ids();
  if (auto format = parts.formats ? parts.formats->compile(request.format, start) : nullptr) {
    format_.emplace(std::move(format), parts.text->tokenizer(), start, ends_);
  }
  result_.prompt_tokens = static_cast<int64_t>(known_.size());
  state_ = sample == 0 && request.cache != nullptr ? &CacheAccess::of(*request.cache) : &own_;
  cache_ = &state_->in(parts.pages);
}

std::vector<TokenId> Sequence::ending_ids() const {
  std::vector<TokenId> ids = group_->request.stop_ids;
  if (group_->request.ignore_eos) return ids;
  const auto& eos = parts_->defaults->eos_token_ids;
  ids.insert(ids.end(), eos.begin(), eos.end());
  if (!eos.empty() || parts_->text == nullptr) return ids;
  const Tokenizer& tokenizer = parts_->text->tokenizer();
  if (const auto id = tokenizer.id_of(tokenizer.eos_token())) ids.push_back(*id);
  return ids;
}

// Leaves in the cache what matches the known tokens, and at least the last one to compute: its
// logits are wanted. With drafts a little more is computed again: what the MTP layer cached for a
// position depends on the token after it.
void Sequence::begin(const FindPrefix& find) {
  replay();
  if (finished_) return;
  adopted_ = 0;
  if (find && !group_->request.prompt_logprobs) adopt(find);
  const size_t most = std::min(state_->ids.size(), known_.size() - 1);
  const auto end = known_.begin() + static_cast<std::ptrdiff_t>(most);
  auto same = static_cast<int64_t>(std::mismatch(known_.begin(), end, state_->ids.begin()).first -
                                   known_.begin());
  mtp_length_ = std::clamp<int64_t>(state_->mtp_length, 0, std::max<int64_t>(0, same - 1));
  speculates_ = parts_->judge->fills();
  if (group_->request.prompt_logprobs) same = mtp_length_ = 0;
  if (speculates_) {
    if (parts_->judge->mode() == Speculation::on || same - mtp_length_ <= kMostRecomputed) {
      same = mtp_length_;
    } else {
      speculates_ = false;
    }
  }
  cache_->truncate(same);
  same = cache_->length();
  adopted_ = std::min(adopted_, same);
  mtp_length_ = std::min(mtp_length_, same);
  sync_ids();
  prefilling_ = true;
  to_prefill_ = pending();
  if (sampled() > 0) return;
  result_.cached_tokens = std::min(same, result_.prompt_tokens);
  began_ = Clock::now();
}

// Another sequence's cache takes the place of its own where more of it fits.
void Sequence::adopt(const FindPrefix& find) {
  const std::optional<SharedPrefix> found = find(known_);
  if (!found) return;
  const auto own =
      std::mismatch(known_.begin(), known_.end(), state_->ids.begin(), state_->ids.end()).first -
      known_.begin();
  if (found->same <= own) return;
  *cache_ = *found->cache;
  state_->ids.assign(found->ids.begin(), found->ids.end());
  state_->mtp_length = found->mtp_length;
  adopted_ = found->same;
}

void Sequence::put_back() {
  if (adopted_ > 0) preempt();
  adopted_ = 0;
}

void Sequence::begin_from(const ComputedPrompt& prompt) {
  *cache_ = prompt.cache;
  prefilling_ = false;
  result_.cached_tokens = result_.prompt_tokens;
  began_ = Clock::now();
  speculates_ = parts_->judge->fills() && prompt.hidden.rows() == 1 &&
                prompt.mtp_length == result_.prompt_tokens - 1;
  mtp_length_ = prompt.mtp_length;
  if (speculates_) {
    prompt_hidden_ = Matrix(1, prompt.hidden.cols());
    std::copy_n(prompt.hidden.row(0), prompt.hidden.cols(), prompt_hidden_.row(0));
  }
  Matrix logits(1, prompt.logits.cols());
  std::copy_n(prompt.logits.row(0), prompt.logits.cols(), logits.row(0));
  try {
    take(logits.view().row_span(0));
  } catch (const Error& error) {
    fail(error);
  }
  sync_ids();
}

int64_t Sequence::pages_soon() const {
  // Of the last token nothing is cached.
  const int64_t more = std::clamp<int64_t>(limit_ - generated() - 1, 0, kPagePositions);
  return cache_->pages_to_prepare(pending() + more);
}

void Sequence::preempt() {
  cache_->truncate(0);
  draft_.reset();
  prompt_hidden_ = Matrix();
  mtp_length_ = 0;
  sync_ids();
}

int64_t Sequence::plan(int64_t most, bool with_draft) {
  start_ = cache_->length();
  planned_ = std::min(pending(), most);
  reaches_end_ = planned_ == pending();
  drafts_ = with_draft && draft_ && reaches_end_ && most > planned_ ? 1 : 0;
  return planned_rows();
}

void Sequence::add_rows(Sweep& sweep) {
  for (int64_t i = 0; i < planned_rows(); ++i) {
    const int64_t index = start_ + i;
    SweepRow row;
    row.token = i < planned_ ? token_at(index) : *draft_;
    row.position = index;
    row.index = index;
    row.cache = cache_;
    // With drafting the final hidden states of all rows are wanted, for the MTP layer.
    row.wants_logits = wants_all_hidden() || (reaches_end_ && i >= planned_ - 1);
    sweep.rows.push_back(row);
  }
}

void Sequence::undo_pass() {
  cache_->truncate(std::min(start_, cache_->length()));
  sync_ids();
}

void Sequence::prefill_progress(double share_of_pass) {
  if (!prefilling_ || sampled() > 0 || !group_->request.on_prefill || callback_error_) return;
  const auto done =
      static_cast<double>(to_prefill_ - (static_cast<int64_t>(known_.size()) - start_));
  const double share =
      (done + share_of_pass * static_cast<double>(planned_)) / static_cast<double>(to_prefill_);
  callback_error_ = guarded([&] { group_->request.on_prefill(std::min(1.0, share)); });
}

int64_t Sequence::finish_pass(Span2d<float> logits) {
  if (callback_error_) {
    fail(*callback_error_);
    sync_ids();
    return 0;
  }
  if (!reaches_end_) {
    sync_ids();
    return 0;
  }
  if (prefilling_) {
    prefilling_ = false;
    if (sampled() == 0) {
      result_.prefill_seconds = seconds_since(began_);
      began_ = Clock::now();
    }
  }
  const std::optional<int32_t> draft = drafts_ > 0 ? std::exchange(draft_, {}) : std::nullopt;
  draft_.reset();
  int64_t sampled = 0;
  try {
    for (int64_t row = 0; row < logits.rows; ++row) {
      // Callbacks may save the cache; whether the next draft belongs to it is not known yet.
      sync_ids(start_ + planned_ + row);
      ++sampled;
      if (!take(logits.row_span(row))) break;
      if (row + 1 == logits.rows) break;
      // The next row was computed as if the draft were this token.
      ++result_.speculation.drafts;
      if (known_.back() != *draft) break;
      ++result_.speculation.accepted;
    }
  } catch (const Error& error) {
    --sampled;
    fail(error);
  }
  // All but the last token stay cached, as without drafts.
  cache_->truncate(start_ + planned_ + std::max<int64_t>(0, sampled - 1));
  sync_ids();
  return sampled;
}

// The ids of what is cached; the MTP layer's positions whose next token is among them.
void Sequence::sync_ids(int64_t length) {
  std::vector<int32_t>& ids = state_->ids;
  ids.resize(std::min(ids.size(), static_cast<size_t>(length)));
  ids.insert(ids.end(), known_.begin() + static_cast<std::ptrdiff_t>(ids.size()),
             known_.begin() + static_cast<std::ptrdiff_t>(length));
  state_->mtp_length = std::min(mtp_length_, std::max<int64_t>(0, length - 1));
}

void Sequence::keep_hidden(Span2d<const float> hidden) { pass_hidden_ = hidden; }

const float* Sequence::hidden_at(int64_t position) const {
  return position < start_ ? prompt_hidden_.row(0) : pass_hidden_.row(position - start_);
}

bool Sequence::wants_draft(int64_t position) const {
  // A token that is certainly the last one is not followed by another.
  return !prefilling_ && position + 1 == cache_->length() && limit_ - generated() >= 2;
}

void Sequence::set_draft(std::span<float> logits) {
  // Drawn with the random number that the verified logits will meet: where the two distributions
  // agree, so do the tokens, whatever the temperature.
  try {
    if (format_ && !format_->restrict(logits)) return;
    draft_ = sampler_.sample(logits, static_cast<uint64_t>(known_.size()));
  } catch (const Error&) {
    draft_.reset();  // not a number: nothing to verify
  }
}

void Sequence::stop_speculating() {
  speculates_ = false;
  draft_.reset();
  prompt_hidden_ = Matrix();
}

ComputedPrompt Sequence::computed_prompt(Matrix logits, Matrix hidden) const {
  ComputedPrompt prompt{*cache_, std::move(logits), std::move(hidden), 0};
  prompt.cache.truncate(result_.prompt_tokens);
  prompt.mtp_length = std::min(mtp_length_, result_.prompt_tokens - 1);
  return prompt;
}

}  // namespace fathom
