#include "text/reasoning.h"

#include <algorithm>
#include <utility>

namespace fathom {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kBlank = " \n\r\t\v\f";

size_t blanks_at_start(std::string_view text) {
  return std::min(text.find_first_not_of(kBlank), text.size());
}

// Length of the longest suffix of `text` that is the beginning of `tag`, but not all of it.
size_t begun_tag(std::string_view text, std::string_view tag) {
  for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size) {
    if (text.ends_with(tag.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

ReasoningSplitter::Tags ReasoningSplitter::tags_of(const Tokenizer& tokenizer) {
  return {tokenizer.id_of(kOpen), tokenizer.id_of(kClose)};
}

ReasoningSplitter::ReasoningSplitter(Tags tags, Start start)
    : tags_(tags),
      reasoning_begun_(start == Start::within_thought),
      content_begun_(start == Start::within_answer) {
  switch (start) {
    case Start::fresh:
      state_ = State::before;
      break;
    case Start::thought:
    case Start::within_thought:
      state_ = State::inside;
      break;
    case Start::within_answer:
      state_ = State::content;
      break;
  }
}

ReasoningDelta ReasoningSplitter::push(TokenId id, std::string_view text) {
  ReasoningDelta out;
  feed(text, false, out);
  if (tags_.open && id == *tags_.open) open_tag(out);
  if (tags_.close && id == *tags_.close) close_tag(out);
  return out;
}

ReasoningDelta ReasoningSplitter::push_text(std::string_view text) {
  ReasoningDelta out;
  feed(text, true, out);
  return out;
}

ReasoningDelta ReasoningSplitter::flush() {
  ReasoningDelta out;
  emit(std::exchange(held_, {}), out);
  return out;
}

bool ReasoningSplitter::inside_thought() const { return state_ == State::inside; }

// Adds text that is neither a tag nor held back to its part; blanks at the start of a part go.
void ReasoningSplitter::emit(std::string_view text, ReasoningDelta& out) {
  if (text.empty()) return;
  if (state_ == State::inside) {
    if (!reasoning_begun_) text.remove_prefix(blanks_at_start(text));
    reasoning_begun_ = reasoning_begun_ || !text.empty();
    out.reasoning += text;
    return;
  }
  if (state_ == State::after_close) {
    text.remove_prefix(blanks_at_start(text));
    if (text.empty()) return;
    state_ = State::content;
  }
  content_begun_ = true;
  out.content += text;
}

void ReasoningSplitter::open_tag(ReasoningDelta& out) {
  // A model may open the thought that its prompt has opened already.
  const bool opens = state_ == State::before || (state_ == State::inside && !reasoning_begun_ &&
                                                 held_.find_first_not_of(kBlank) == held_.npos);
  if (opens) {
    const bool said = content_begun_ || held_.find_first_not_of(kBlank) != held_.npos;
    if (state_ == State::before && said) emit(held_, out);
    held_.clear();
    state_ = State::inside;
    return;
  }
  emit(std::exchange(held_, {}), out);
  emit(kOpen, out);
}

void ReasoningSplitter::close_tag(ReasoningDelta& out) {
  // Before anything is said, a closing tag without an opening one ends a thought of no words; after
  // that it is text, since what was said has been shown as the answer.
  const bool nothing_said = !content_begun_ && held_.find_first_not_of(kBlank) == held_.npos;
  if (state_ == State::before && nothing_said) {
    held_.clear();
    state_ = State::after_close;
    return;
  }
  if (state_ == State::inside) {
    // What is held is blanks, perhaps with the beginning of a tag that did not become one.
    const size_t end = held_.find_last_not_of(kBlank);
    held_.resize(end == held_.npos ? 0 : end + 1);
    emit(std::exchange(held_, {}), out);
    state_ = State::after_close;
    return;
  }
  emit(std::exchange(held_, {}), out);
  emit(kClose, out);
}

// Which tags in the text mean something now; where an id stands for a tag, its text never does.
std::pair<bool, bool> ReasoningSplitter::tags_that_count(bool find_tags) const {
  const bool open = state_ == State::before || (state_ == State::inside && !reasoning_begun_);
  const bool close = state_ == State::inside || (state_ == State::before && !content_begun_);
  return {open && (find_tags || !tags_.open), close && (find_tags || !tags_.close)};
}

void ReasoningSplitter::feed(std::string_view text, bool find_tags, ReasoningDelta& out) {
  held_ += text;
  while (state_ == State::before || state_ == State::inside) {
    const auto [open_counts, close_counts] = tags_that_count(find_tags);
    const size_t open_at = open_counts ? held_.find(kOpen) : held_.npos;
    const size_t close_at = close_counts ? held_.find(kClose) : held_.npos;
    if (open_at == held_.npos && close_at == held_.npos) break;
    const bool opens = open_at < close_at;
    const size_t at = opens ? open_at : close_at;
    std::string rest = held_.substr(at + (opens ? kOpen : kClose).size());
    held_.resize(at);
    if (opens) {
      open_tag(out);
    } else {
      close_tag(out);
    }
    held_ = std::move(rest);
  }
  release(find_tags, out);
}

// Shows what is held except for what a tag may still follow or come of.
void ReasoningSplitter::release(bool find_tags, ReasoningDelta& out) {
  size_t keep = 0;
  if (state_ == State::before || state_ == State::inside) {
    const auto [open_counts, close_counts] = tags_that_count(find_tags);
    if (open_counts) keep = std::max(keep, begun_tag(held_, kOpen));
    if (close_counts) keep = std::max(keep, begun_tag(held_, kClose));
    const std::string_view said(held_.data(), held_.size() - keep);
    const size_t end = said.find_last_not_of(kBlank) + 1;  // 0 where all is blank
    if (state_ == State::inside || (end == 0 && !content_begun_)) keep = held_.size() - end;
  }
  const std::string kept = held_.substr(held_.size() - keep);
  held_.resize(held_.size() - keep);
  emit(held_, out);
  held_ = kept;
}

bool prompt_opens_thought(std::string_view prompt_text) {
  const size_t end = prompt_text.find_last_not_of(kBlank);
  return end != prompt_text.npos && prompt_text.substr(0, end + 1).ends_with(kOpen);
}

}  // namespace fathom
