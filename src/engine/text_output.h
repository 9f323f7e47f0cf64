// From sampled ids to text that may be shown: whole characters, thought and answer apart, stop
// strings found and never shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sample/stop_strings.h"
#include "text/reasoning.h"
#include "text/tokenizer.h"
#include "text/utf8_stream.h"

namespace fathom {

class TextOutput {
 public:
  struct Options {
    bool split_reasoning = true;
    bool starts_inside_thought = false;
    std::vector<std::string> stops;  // in the answer where the output is split, else anywhere
  };
  TextOutput(const Tokenizer& tokenizer, const Options& options);

  struct Delta {
    std::string text;  // the raw output's; it ends before a stop string too
    std::string reasoning;
    std::string content;
    bool stopped = false;  // a stop string was found
  };
  Delta push(TokenId id);
  Delta finish();

  // Tokens so far that belong to the thought, its closing tag included.
  int64_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  Delta route(const std::string& raw, ReasoningDelta split);

  const Tokenizer* tokenizer_;
  Options options_;
  ReasoningSplitter::Tags tags_;
  Utf8Stream utf8_;
  ReasoningSplitter splitter_;
  StopStrings stops_;
  int64_t reasoning_tokens_ = 0;
  std::string raw_;          // raw text that is held back with the other parts
  size_t content_held_ = 0;  // bytes that the stop strings hold back, or have swallowed
};

}  // namespace fathom
