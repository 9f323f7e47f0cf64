#include "engine/text_output.h"

namespace fathom {

TextOutput::TextOutput(const Tokenizer& tokenizer, const Options& options)
    : tokenizer_(&tokenizer),
      options_(options),
      splitter_(ReasoningSplitter::tags_of(tokenizer), options.starts_inside_thought),
      stops_(options.stops) {}

TextOutput::Delta TextOutput::push(TokenId id) {
  const AddedToken* added = tokenizer_->added_token(id);
  Delta delta;
  if (added != nullptr && added->special) {
    // Never shown; but it ends whatever character was begun before it.
    delta.text = utf8_.finish();
  } else if (added != nullptr) {
    delta.text = utf8_.finish() + added->content;
  } else {
    delta.text = utf8_.push(tokenizer_->bytes(id));
  }
  ReasoningDelta split;
  if (!options_.split_reasoning) {
    split.content = delta.text;
  } else {
    const bool counts = splitter_.inside_thought();
    const auto tags = ReasoningSplitter::tags_of(*tokenizer_);
    const bool is_tag = id == tags.open || id == tags.close;
    std::string before = delta.text;
    if (is_tag) before.resize(before.size() - added->content.size());
    split = splitter_.push(id, before);
    if (counts || splitter_.inside_thought()) ++reasoning_tokens_;
  }
  Delta routed = route(std::move(split));
  routed.text = delta.text;
  return routed;
}

TextOutput::Delta TextOutput::finish() {
  const std::string rest = utf8_.finish();
  ReasoningDelta split;
  if (!options_.split_reasoning) {
    split.content = rest;
  } else {
    split = splitter_.push_text(rest);
    split.append(splitter_.finish());
  }
  Delta delta = route(std::move(split));
  if (!delta.stopped) delta.content += stops_.finish();
  delta.text = rest;
  return delta;
}

TextOutput::Delta TextOutput::route(ReasoningDelta split) {
  Delta delta;
  StopStrings::Result result = stops_.push(split.content);
  delta.reasoning = std::move(split.reasoning);
  delta.content = std::move(result.text);
  delta.stopped = result.stopped;
  return delta;
}

}  // namespace fathom
