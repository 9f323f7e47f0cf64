// From sampled ids to text that may be shown: whole characters, thought and answer apart, stop
// strings found and never shown, tool calls recognised.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fathom/model.h"
#include "sample/stop_strings.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"
#include "text/tool_calls.h"
#include "text/utf8_stream.h"

namespace fathom {

class TextOutput {
 public:
  struct Options {
    bool split_reasoning = true;
    ReasoningSplitter::Start start = ReasoningSplitter::Start::fresh;
    std::vector<std::string> stops;  // in the answer where the output is split, else anywhere
    bool tool_calls = false;         // recognised in the answer, where the output is split
  };
  TextOutput(const Tokenizer& tokenizer, const Options& options);

  struct Delta {
    std::string text;  // the raw output's; it ends before a stop string too
    std::string reasoning;
    std::string content;
    std::vector<ToolEvent> tools;
    bool stopped = false;  // a stop string was found
  };
  Delta push(TokenId id);
  Delta finish();

  // Tokens so far that belong to the thought, its closing tag included.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }
  bool inside_thought() const { return options_.split_reasoning && splitter_.inside_thought(); }

 private:
  Delta route(const std::string& raw, ReasoningDelta split, std::optional<ToolMarker> marker);
  void add(std::vector<ToolPiece> pieces, Delta& delta);
  void add_content(std::string_view text, Delta& delta);
  void add_unmatched(Delta& delta);
  void show_raw(Delta& delta);

  const Tokenizer* tokenizer_;
  Options options_;
  ReasoningSplitter::Tags tags_;
  Utf8Stream utf8_;
  ReasoningSplitter splitter_;
  std::optional<ToolCallParser> tool_calls_;
  int64_t calls_ = 0;  // that began
  StopStrings stops_;
  int64_t reasoning_tokens_ = 0;
  std::string raw_;          // raw text that is held back with the other parts
  size_t content_held_ = 0;  // bytes that the stop strings hold back, or have swallowed
};

}  // namespace fathom
