#include "cli/answer.h"

#include <cstdio>

#include "base/error.h"
#include "base/system.h"
#include "base/units.h"

namespace fathom::cli {

AnswerPrinter::~AnswerPrinter() {
  try {
    output_.dim(false);
  } catch (const Error&) {
    // Whoever writes next hears of it.
  }
}

void AnswerPrinter::put(const std::string& text) {
  if (text.empty()) return;
  output_.write_foreign(text);
  at_line_start_ = text.back() == '\n';
  anything_ = true;
}

void AnswerPrinter::step(const GenerateStep& step) {
  if (!step.reasoning.empty()) {
    if (show_thought_) {
      if (!in_thought_ && anything_) put(at_line_start_ ? "\n" : "\n\n");
      output_.dim(true);
      put(step.reasoning);
    } else {
      if (!thinking_) thinking_ = std::make_unique<Progress>("thinking", 0, ProgressUnit::items);
      thinking_->set(++hidden_);
    }
    in_thought_ = true;
  }
  for (const ToolEvent& event : step.tools) {
    if (event.kind == ToolEvent::Kind::broken) tool(event);  // its text comes as content
  }
  if (!step.content.empty()) {
    thinking_.reset();
    output_.dim(false);
    if (in_thought_ && anything_) put(at_line_start_ ? "\n" : "\n\n");
    in_thought_ = false;
    put(step.content);
  }
  for (const ToolEvent& event : step.tools) {
    if (event.kind != ToolEvent::Kind::broken) tool(event);
  }
  output_.flush();
}

// A call on a line of its own: its name and its arguments.
void AnswerPrinter::tool(const ToolEvent& event) {
  thinking_.reset();
  output_.dim(false);
  in_thought_ = false;
  switch (event.kind) {
    case ToolEvent::Kind::begins:
      if (anything_) put(at_line_start_ ? "\n" : "\n\n");
      put("call " + event.text + " ");
      break;
    case ToolEvent::Kind::arguments:
      put(event.text);
      break;
    case ToolEvent::Kind::ends:
      put("\n");
      break;
    case ToolEvent::Kind::broken:
      put("\n[this is no call; it reads:]\n");
      break;
  }
}

void AnswerPrinter::id(int32_t id) {
  put((anything_ ? " " : "") + std::to_string(id));
  output_.flush();
}

void AnswerPrinter::finish() {
  thinking_.reset();
  output_.dim(false);
  if (!at_line_start_) put("\n");
  output_.flush();
}

void PrefillBar::set(double share) {
  if (share >= 1) {
    bar_.reset();
    return;
  }
  if (!bar_) bar_.emplace("prefill", tokens_, ProgressUnit::items);
  bar_->set(static_cast<uint64_t>(share * static_cast<double>(tokens_)));
}

AnswerPace::AnswerPace(const Output& output, int64_t most, bool quiet)
    : shown_(!quiet && system::stderr_is_terminal()),
      in_title_(output.is_terminal()),
      most_(most) {}

AnswerPace::~AnswerPace() {
  if (!title_set_) return;
  std::fputs("\x1b]0;\a", stderr);
  std::fflush(stderr);
}

void AnswerPace::token() {
  constexpr double kSlow = 1;  // seconds per token
  using Clock = std::chrono::steady_clock;
  if (!shown_) return;
  if (++tokens_ == 1) {
    first_ = Clock::now();
    return;
  }
  const double each = std::chrono::duration<double>(Clock::now() - first_).count() /
                      static_cast<double>(tokens_ - 1);
  if (each < kSlow) return;
  if (in_title_) {
    std::fputs(("\x1b]0;fathom: " + pace_text(tokens_, most_, each) + "\a").c_str(), stderr);
    std::fflush(stderr);
    title_set_ = true;
    return;
  }
  if (!bar_) bar_.emplace("answer", static_cast<uint64_t>(most_), ProgressUnit::items);
  bar_->set(static_cast<uint64_t>(tokens_));
}

std::string pace_text(int64_t tokens, int64_t most, double seconds_each) {
  std::string text = fmt::format("{} tokens, {:.1f} s each", tokens, seconds_each);
  if (most > tokens) {
    text += fmt::format("; the other {} take about {}", most - tokens,
                        format_duration(static_cast<double>(most - tokens) * seconds_each));
  }
  return text;
}

std::optional<double> prefill_rate(const GenerateResult& result) {
  const int64_t tokens = result.prompt_tokens - result.cached_tokens;
  if (!(result.prefill_seconds > 0) || tokens < 1) return std::nullopt;
  return static_cast<double>(tokens) / result.prefill_seconds;
}

std::optional<double> decode_rate(const GenerateResult& result) {
  const int64_t tokens = static_cast<int64_t>(result.ids.size()) - result.resumed_tokens;
  if (!(result.decode_seconds > 0) || tokens < 2) return std::nullopt;
  return static_cast<double>(tokens - 1) / result.decode_seconds;
}

std::string summary(const GenerateResult& result) {
  std::string text =
      fmt::format("{} token{}", result.ids.size(), result.ids.size() == 1 ? "" : "s");
  if (result.reasoning_tokens > 0) text += fmt::format(" ({} of thought)", result.reasoning_tokens);
  if (result.resumed_tokens > 0) text += fmt::format(" ({} from before)", result.resumed_tokens);
  if (const auto rate = decode_rate(result)) text += fmt::format(", {:.1f} tokens/s", *rate);
  text += fmt::format("; prompt of {}", result.prompt_tokens);
  if (result.cached_tokens > 0) text += fmt::format(" ({} from the cache)", result.cached_tokens);
  if (result.prefill_seconds > 0) text += " in " + format_duration(result.prefill_seconds);
  if (const auto rate = prefill_rate(result)) text += fmt::format(", {:.1f} tokens/s", *rate);
  const SpeculationReport& speculation = result.speculation;
  if (!speculation.reason.empty()) {
    text += fmt::format("; drafts {} ({})", speculation.on ? "on" : "off", speculation.reason);
    if (speculation.drafts > 0) {
      text += fmt::format(", {} of {} accepted", speculation.accepted, speculation.drafts);
    }
  }
  switch (result.finish_reason) {
    case FinishReason::stop:
      break;
    case FinishReason::length:
      text += "; the limit of tokens was reached";
      break;
    case FinishReason::cancelled:
      text += "; stopped";
      break;
    case FinishReason::error:
      text += "; failed";
      break;
  }
  return text;
}

JsonObject usage_json(const GenerateResult& result) {
  const auto completion = static_cast<int64_t>(result.ids.size());
  JsonObject usage;
  usage.integer("prompt_tokens", result.prompt_tokens)
      .integer("completion_tokens", completion)
      .integer("total_tokens", result.prompt_tokens + completion)
      .integer("cached_tokens", result.cached_tokens)
      .object("completion_tokens_details",
              JsonObject().integer("reasoning_tokens", result.reasoning_tokens));
  return usage;
}

JsonObject speculation_json(const GenerateResult& result) {
  const SpeculationReport& speculation = result.speculation;
  JsonObject object;
  object.boolean("on", speculation.on)
      .text("reason", speculation.reason)
      .integer("drafts", speculation.drafts)
      .integer("accepted", speculation.accepted);
  return object;
}

JsonObject timings_json(const GenerateResult& result, double load_seconds) {
  JsonObject timings;
  timings.number("load_seconds", load_seconds)
      .number("prefill_seconds", result.prefill_seconds)
      .number("decode_seconds", result.decode_seconds)
      .number("prefill_tokens_per_second", prefill_rate(result))
      .number("decode_tokens_per_second", decode_rate(result));
  return timings;
}

}  // namespace fathom::cli
