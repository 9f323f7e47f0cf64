#include "engine/text_output.h"

#include <algorithm>

namespace fathom {

TextOutput::TextOutput(const Tokenizer& tokenizer, const Options& options)
    : tokenizer_(&tokenizer),
      options_(options),
      tags_(ReasoningSplitter::tags_of(tokenizer)),
      splitter_(tags_, options.starts_inside_thought),
      stops_(options.stops) {}

TextOutput::Delta TextOutput::push(TokenId id) {
  // An added token ends whatever character was begun before it; a special one is never shown.
  const AddedToken* added = tokenizer_->added_token(id);
  std::string text = added != nullptr ? utf8_.finish() : utf8_.push(tokenizer_->bytes(id));
  const std::string shown = added != nullptr && !added->special ? added->content : "";
  const bool is_tag = id == tags_.open || id == tags_.close;

  ReasoningDelta split;
  if (!options_.split_reasoning) {
    split.content = text + shown;
  } else {
    const bool was_inside = splitter_.inside_thought();
    split = splitter_.push(id, is_tag ? text : text + shown);
    if (was_inside || splitter_.inside_thought()) ++reasoning_tokens_;
  }
  return route(text + shown, std::move(split));
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
  Delta delta = route(rest, std::move(split));
  const std::string unmatched = stops_.finish();
  delta.content += unmatched;
  delta.text += raw_.substr(0, unmatched.size());
  return delta;
}

// The raw text goes as far as the parts do: what the splitter or the stop strings hold back stands
// at its end.
TextOutput::Delta TextOutput::route(const std::string& raw, ReasoningDelta split) {
  Delta delta;
  StopStrings::Result result = stops_.push(split.content);
  content_held_ += split.content.size() - result.text.size();
  raw_ += raw;
  const size_t held = content_held_ + (options_.split_reasoning ? splitter_.held_bytes() : 0);
  delta.text = raw_.substr(0, raw_.size() - std::min(held, raw_.size()));
  raw_.erase(0, delta.text.size());
  delta.reasoning = std::move(split.reasoning);
  delta.content = std::move(result.text);
  delta.stopped = result.stopped;
  return delta;
}

}  // namespace fathom
