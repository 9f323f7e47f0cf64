#include "engine/text_output.h"

#include <algorithm>

namespace fathom {
namespace {

ToolEvent::Kind event_kind(ToolPiece::Kind kind) {
  switch (kind) {
    case ToolPiece::Kind::begins:
      return ToolEvent::Kind::begins;
    case ToolPiece::Kind::arguments:
      return ToolEvent::Kind::arguments;
    case ToolPiece::Kind::ends:
      return ToolEvent::Kind::ends;
    case ToolPiece::Kind::broken:
    case ToolPiece::Kind::content:
      break;
  }
  return ToolEvent::Kind::broken;
}

}  // namespace

TextOutput::TextOutput(const Tokenizer& tokenizer, const Options& options)
    : tokenizer_(&tokenizer),
      options_(options),
      tags_(ReasoningSplitter::tags_of(tokenizer)),
      splitter_(tags_, options.start),
      stops_(options.stops) {
  if (options.tool_calls && options.split_reasoning) tool_calls_.emplace(tokenizer);
}

TextOutput::Delta TextOutput::push(TokenId id) {
  // An added token ends whatever character was begun before it; a special one is never shown.
  const AddedToken* added = tokenizer_->added_token(id);
  const std::string text = added != nullptr ? utf8_.finish() : utf8_.push(tokenizer_->bytes(id));
  const std::string shown = added != nullptr && !added->special ? added->content : "";
  const bool is_tag = id == tags_.open || id == tags_.close;

  ReasoningDelta split;
  std::optional<ToolMarker> marker;
  if (!options_.split_reasoning) {
    split.content = text + shown;
  } else {
    const bool was_inside = splitter_.inside_thought();
    if (tool_calls_ && !was_inside) marker = tool_calls_->marker(id);
    split = splitter_.push(id, is_tag || marker ? text : text + shown);
    if (marker) split.append(splitter_.flush());
    if (was_inside || splitter_.inside_thought()) ++reasoning_tokens_;
  }
  return route(text + shown, std::move(split), marker);
}

TextOutput::Delta TextOutput::finish() {
  const std::string rest = utf8_.finish();
  ReasoningDelta split;
  if (!options_.split_reasoning) {
    split.content = rest;
  } else {
    split = splitter_.push_text(rest);
    split.append(splitter_.flush());
  }
  Delta delta = route(rest, std::move(split), std::nullopt);
  if (tool_calls_) add(tool_calls_->finish(), delta);
  add_unmatched(delta);
  Delta last;
  show_raw(last);
  delta.text += last.text;
  return delta;
}

TextOutput::Delta TextOutput::route(const std::string& raw, ReasoningDelta split,
                                    std::optional<ToolMarker> marker) {
  Delta delta;
  raw_ += raw;
  delta.reasoning = std::move(split.reasoning);
  if (tool_calls_) {
    add(tool_calls_->push(split.content), delta);
    if (marker) add(tool_calls_->push(*marker), delta);
  } else {
    add_content(split.content, delta);
  }
  show_raw(delta);
  return delta;
}

void TextOutput::add(std::vector<ToolPiece> pieces, Delta& delta) {
  for (ToolPiece& piece : pieces) {
    switch (piece.kind) {
      case ToolPiece::Kind::content:
        add_content(piece.text, delta);
        continue;
      case ToolPiece::Kind::begins:
        add_unmatched(delta);  // a stop string does not reach across a call
        ++calls_;
        break;
      case ToolPiece::Kind::arguments:
      case ToolPiece::Kind::ends:
      case ToolPiece::Kind::broken:
        break;
    }
    delta.tools.push_back({event_kind(piece.kind), calls_ - 1, std::move(piece.text)});
  }
}

void TextOutput::add_content(std::string_view text, Delta& delta) {
  StopStrings::Result result = stops_.push(text);
  content_held_ += text.size() - result.text.size();
  delta.content += result.text;
  delta.stopped = result.stopped;
}

// What the stop strings hold back, now that nothing completes it.
void TextOutput::add_unmatched(Delta& delta) {
  const std::string unmatched = stops_.finish();
  content_held_ -= unmatched.size();
  delta.content += unmatched;
  delta.stopped = stops_.stopped();
}

// The raw text goes as far as the parts do: what the splitter, the calls' markers or the stop
// strings hold back stands at its end.
void TextOutput::show_raw(Delta& delta) {
  size_t held = content_held_;
  if (options_.split_reasoning) held += splitter_.held_bytes();
  if (tool_calls_) held += tool_calls_->held_bytes();
  delta.text = raw_.substr(0, raw_.size() - std::min(held, raw_.size()));
  raw_.erase(0, delta.text.size());
}

}  // namespace fathom
