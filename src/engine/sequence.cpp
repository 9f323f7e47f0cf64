#include "engine/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace fathom {
namespace {

// Where a measured decision stands behind drafting, this many positions at the most are computed
// again so that the MTP layer sees them.
constexpr int64_t kMostRecomputed = 64;

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// What the file says and the request leaves to it is checked by itself, so that the file is named.
void check_defaults(const SamplingRequest& asked, const GenerationConfig& defaults,
                    const std::string& folder) {
  SamplingOptions options;
  if (!asked.temperature && defaults.temperature) options.temperature = *defaults.temperature;
  if (!asked.top_p && defaults.top_p) options.top_p = *defaults.top_p;
  if (!asked.min_p && defaults.min_p) options.min_p = *defaults.min_p;
  try {
    validate(options);
  } catch (const Error& error) {
    fail_input("{}/generation_config.json: {}", folder, error.what());
  }
}

SamplingOptions resolve(const SamplingRequest& asked, const GenerationConfig& defaults) {
  SamplingOptions options;
  const bool greedy_by_default = defaults.do_sample == false;
  options.temperature =
      asked.temperature.value_or(greedy_by_default ? 0.0 : defaults.temperature.value_or(1.0));
  options.top_k = asked.top_k.value_or(defaults.top_k.value_or(0));
  options.top_p = asked.top_p.value_or(defaults.top_p.value_or(1.0));
  options.min_p = asked.min_p.value_or(defaults.min_p.value_or(0.0));
  options.repetition_penalty =
      asked.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0));
  options.presence_penalty = asked.presence_penalty;
  options.frequency_penalty = asked.frequency_penalty;
  options.logit_bias = asked.logit_bias;
  options.seed = asked.seed;
  validate(options);
  return options;
}

// Calls `f`, which belongs to the caller of the library; what it throws becomes an Error.
template <typename F>
std::optional<Error> guarded(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorKind::io, error.what());
  }
  return std::nullopt;
}

}  // namespace

void check_token_ids(std::span<const int32_t> ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      fail_usage("token {} at place {} is outside the vocabulary of {}", ids[i], i, vocab_size);
    }
  }
}

void check_request(const ModelParts& parts, const GenerateRequest& request) {
  const int64_t vocab = parts.model->shape().vocab_size;
  const ContextDecision& context = *parts.context;
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.ids.size());
  if (prompt_tokens == 0) fail_usage("the prompt is empty");
  check_token_ids(request.prompt.ids, vocab);
  check_token_ids(request.resume, vocab);
  if (prompt_tokens >= context.tokens) {
    fail_usage("the prompt has {} tokens, and the context of {} must also hold the answer ({})",
               prompt_tokens, context.tokens, context.reason);
  }
  if (request.max_tokens < 0) fail_usage("max_tokens: {} is negative", request.max_tokens);
  check_defaults(request.sampling, *parts.defaults, parts.folder);
  resolve(request.sampling, *parts.defaults);
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    check_token_ids(std::span(&id, 1), vocab);
  }
  if (!request.stop.empty() && parts.text == nullptr) {
    fail_input("{}: there is no tokenizer.json, which text needs", parts.folder);
  }
  StopStrings(request.stop);
}

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
  if (parts.text != nullptr) {
    output_.emplace(
        parts.text->tokenizer(),
        TextOutput::Options{request.split_reasoning, request.prompt.opens_thought, request.stop});
  }
  result_.prompt_tokens = static_cast<int64_t>(known_.size());
  state_ = sample == 0 && request.cache != nullptr ? &CacheAccess::of(*request.cache) : &own_;
  cache_ = &state_->in(parts.pages);
}

// Leaves in the cache what matches the known tokens, and at least the last one to compute: its
// logits are wanted. With drafts a little more is computed again: what the MTP layer cached for a
// position depends on the token after it.
void Sequence::begin() {
  replay();
  if (finished_) return;
  const size_t most = std::min(state_->ids.size(), known_.size() - 1);
  const auto end = known_.begin() + static_cast<std::ptrdiff_t>(most);
  auto same = static_cast<int64_t>(std::mismatch(known_.begin(), end, state_->ids.begin()).first -
                                   known_.begin());
  mtp_length_ = std::clamp<int64_t>(state_->mtp_length, 0, std::max<int64_t>(0, same - 1));
  speculates_ = parts_->judge->fills();
  if (speculates_) {
    if (parts_->judge->mode() == Speculation::on || same - mtp_length_ <= kMostRecomputed) {
      same = mtp_length_;
    } else {
      speculates_ = false;
    }
  }
  cache_->truncate(same);
  same = cache_->length();
  mtp_length_ = std::min(mtp_length_, same);
  sync_ids();
  prefilling_ = true;
  to_prefill_ = pending();
  if (sampled() > 0) return;
  result_.cached_tokens = std::min(same, result_.prompt_tokens);
  began_ = Clock::now();
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
    row.wants_logits = speculates_ || (reaches_end_ && i >= planned_ - 1);
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

bool Sequence::take(std::span<float> logits) {
  return accept(sampler_.sample(logits, static_cast<uint64_t>(known_.size())), false);
}

// What an earlier call has generated is taken as if it were sampled now.
void Sequence::replay() {
  if (std::exchange(replayed_, true)) return;
  for (const int32_t id : group_->request.resume) {
    ++result_.resumed_tokens;
    if (!accept(id, true)) return;
  }
}

bool Sequence::accept(int32_t id, bool resumed) {
  sampler_.see_output(id);
  known_.push_back(id);
  result_.ids.push_back(id);
  if (!resumed) result_.decode_seconds = seconds_since(began_);

  bool stop = ends(id);
  TextOutput::Delta delta;
  if (output_ && !stop) {
    delta = output_->push(id);
    stop = delta.stopped;
  }
  show(id, delta, resumed);
  if (finished_) return false;
  if (stop) finish(FinishReason::stop);
  if (!finished_ && generated() >= limit_) finish(FinishReason::length);
  return !finished_;
}

bool Sequence::ends(int32_t id) const {
  const auto& stops = group_->request.stop_ids;
  if (std::find(stops.begin(), stops.end(), id) != stops.end()) return true;
  if (group_->request.ignore_eos) return false;
  const auto& eos = parts_->defaults->eos_token_ids;
  if (!eos.empty()) return std::find(eos.begin(), eos.end(), id) != eos.end();
  const TextFolder* text = parts_->text;
  return text != nullptr && text->tokenizer().id_of(text->tokenizer().eos_token()) == id;
}

// A caller who wants no more ends it with the token just shown.
void Sequence::show(int32_t id, const TextOutput::Delta& delta, bool resumed) {
  result_.text += delta.text;
  result_.reasoning += delta.reasoning;
  result_.content += delta.content;
  if (!group_->request.on_step) return;
  bool more = true;
  const std::optional<Error> error = guarded([&] {
    more =
        group_->request.on_step({id, delta.text, delta.reasoning, delta.content, sample_, resumed});
  });
  if (error) {
    fail(*error);
  } else if (!more && !finished_) {
    finish(FinishReason::cancelled);
  }
}

void Sequence::finish(FinishReason reason) {
  finished_ = true;
  result_.finish_reason = reason;
  if (!output_) return;
  const TextOutput::Delta rest = output_->finish();
  result_.reasoning_tokens = output_->reasoning_tokens();
  if (rest.text.empty() && rest.reasoning.empty() && rest.content.empty()) return;
  show(-1, rest);
}

void Sequence::fail(const Error& error) {
  finished_ = true;
  result_.finish_reason = FinishReason::error;
  result_.error = error;
  if (output_) result_.reasoning_tokens = output_->reasoning_tokens();
}

void Sequence::cancel() {
  if (!finished_) finish(FinishReason::cancelled);
}

void Sequence::deliver() {
  const SpeculationJudge& judge = *parts_->judge;
  result_.speculation.on = judge.on();
  result_.speculation.reason = judge.reason();
  if (group_->on_finish) group_->on_finish(sample_, std::move(result_));
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
