// A sequence's tokens on their way out: sampled, told, ended.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/guarded.h"
#include "engine/sequence.h"
#include "sample/logprobs.h"

namespace fathom {
bool Sequence::take(std::span<float> logits) {
  std::vector<float> own;  // sampling changes them
  if (group_->request.logprobs) own.assign(logits.begin(), logits.end());
  const std::optional<int32_t> closing = closing_id();
  if (!closing && format_ && !format_->restrict(logits)) {
    finish(FinishReason::stop);  // it is whole, and no token says so
    return false;
  }
  const int32_t id =
      closing ? *closing : sampler_.sample(logits, static_cast<uint64_t>(known_.size()));
  std::optional<PositionLogprobs> logprobs;
  if (group_->request.logprobs) logprobs = logprobs_of(own, id);
  return accept(id, false, std::move(logprobs));
}

std::optional<int32_t> Sequence::closing_id() const {
  if (closed_ == closing_.size()) return std::nullopt;
  const bool due =
      closed_ > 0 || (output_->inside_thought() &&
                      output_->reasoning_tokens() >= *group_->request.reasoning_budget);
  return due ? std::optional(closing_[closed_]) : std::nullopt;
}

PositionLogprobs Sequence::logprobs_of(std::span<const float> logits, int32_t id) const {
  const auto told = [this](int32_t token, float logprob) {
    TokenLogprob entry{token, logprob, {}};
    if (parts_->text != nullptr) entry.bytes = parts_->text->tokenizer().bytes(token);
    return entry;
  };
  const Logprobs logprobs(logits);
  PositionLogprobs position{told(id, logprobs.of(id)), {}};
  for (const auto& [token, logprob] : logprobs.top(group_->request.logprobs.value_or(0))) {
    position.top.push_back(told(token, logprob));
  }
  return position;
}

int64_t Sequence::planned_prompt_logits() const {
  if (!group_->request.prompt_logprobs) return 0;
  return std::clamp<int64_t>(result_.prompt_tokens - 1 - start_, 0, planned_);
}

// A prompt that is computed again is told once.
void Sequence::tell_prompt(int64_t first, Span2d<const float> logits) {
  for (int64_t i = 0; i < logits.rows; ++i) {
    const int64_t position = start_ + first + i;
    if (position != std::ssize(group_->prompt_logprobs)) continue;
    group_->prompt_logprobs.push_back(logprobs_of(logits.row_span(i), token_at(position + 1)));
  }
}

// What an earlier call has generated is taken as if it were sampled now.
void Sequence::replay() {
  if (std::exchange(replayed_, true)) return;
  for (const int32_t id : group_->request.resume) {
    ++result_.resumed_tokens;
    if (!accept(id, true, std::nullopt)) return;
  }
}

bool Sequence::accept(int32_t id, bool resumed, std::optional<PositionLogprobs> logprobs) {
  if (closing_id()) ++closed_;
  try {
    if (format_) format_->take(id);
  } catch (const Error& error) {
    fail(error);
    return false;
  }
  sampler_.see_output(id);
  known_.push_back(id);
  result_.ids.push_back(id);
  if (!resumed) result_.decode_seconds = seconds_since(began_);

  bool stop = std::find(ends_.begin(), ends_.end(), id) != ends_.end();
  TextOutput::Delta delta;
  if (output_ && !stop) {
    delta = output_->push(id);
    stop = delta.stopped;
  }
  if (logprobs) result_.logprobs.push_back(*logprobs);
  GenerateStep step = step_of(id, std::move(delta));
  step.resumed = resumed;
  step.logprobs = std::move(logprobs);
  show(step);
  if (finished_) return false;
  if (stop) finish(FinishReason::stop);
  if (!finished_ && generated() >= limit_) finish(FinishReason::length);
  return !finished_;
}

GenerateStep Sequence::step_of(int32_t id, TextOutput::Delta delta) const {
  GenerateStep step;
  step.id = id;
  step.text = std::move(delta.text);
  step.reasoning = std::move(delta.reasoning);
  step.content = std::move(delta.content);
  step.tools = std::move(delta.tools);
  step.sample = sample_;
  return step;
}

// The last one of the list may be under way.
void Sequence::count_call(const ToolEvent& event) {
  switch (event.kind) {
    case ToolEvent::Kind::begins:
      result_.tool_calls.push_back({event.text, ""});
      break;
    case ToolEvent::Kind::arguments:
      result_.tool_calls.back().arguments += event.text;
      break;
    case ToolEvent::Kind::ends:
      ++whole_calls_;
      break;
    case ToolEvent::Kind::broken:
      result_.tool_calls.pop_back();
      break;
  }
}

// A caller who wants no more ends it with the token just shown.
void Sequence::show(const GenerateStep& step) {
  for (const ToolEvent& event : step.tools) count_call(event);
  result_.text += step.text;
  result_.reasoning += step.reasoning;
  result_.content += step.content;
  if (!group_->request.on_step) return;
  bool more = true;
  const std::optional<Error> error = guarded([&] { more = group_->request.on_step(step); });
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
  TextOutput::Delta rest = output_->finish();
  result_.reasoning_tokens = output_->reasoning_tokens();
  if (rest.text.empty() && rest.reasoning.empty() && rest.content.empty() && rest.tools.empty()) {
    return;
  }
  show(step_of(-1, std::move(rest)));
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
  result_.prompt_logprobs = group_->prompt_logprobs;
  result_.tool_calls.resize(whole_calls_);
  if (group_->on_finish) group_->on_finish(sample_, std::move(result_));
}

}  // namespace fathom
