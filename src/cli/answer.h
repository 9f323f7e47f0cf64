// Showing a generation while it runs, and saying afterwards what it took. Shared by chat and
// generate.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/progress.h"
#include "cli/json_output.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "fathom/model.h"

namespace fathom::cli {

// Streams steps to standard output: the thought dimmed, an empty line, the answer.
class AnswerPrinter {
 public:
  AnswerPrinter(Output& output, bool show_thought) : output_(output), show_thought_(show_thought) {}
  ~AnswerPrinter();
  AnswerPrinter(const AnswerPrinter&) = delete;
  AnswerPrinter& operator=(const AnswerPrinter&) = delete;

  void step(const GenerateStep& step);
  // A step of a model without tokenizer.
  void id(int32_t id);
  // Ends the last line.
  void finish();

 private:
  void put(const std::string& text);
  void tool(const ToolEvent& event);

  Output& output_;
  bool show_thought_;
  bool in_thought_ = false;
  bool at_line_start_ = true;
  bool anything_ = false;
  uint64_t hidden_ = 0;                 // tokens of a thought that is not shown
  std::unique_ptr<Progress> thinking_;  // says so on a terminal
};

// A bar while the prompt is worked on.
class PrefillBar {
 public:
  explicit PrefillBar(size_t tokens) : tokens_(tokens) {}
  void set(double share);

 private:
  size_t tokens_;
  std::optional<Progress> bar_;
};

// Says how far a slow answer has come (several seconds per token), and how long the rest may take:
// a line on stderr while standard output goes elsewhere, else the terminal's title, because the
// answer itself is on the screen. Answers that come quickly are left alone.
class AnswerPace {
 public:
  // `most`: tokens that the answer may have; 0 where only the context ends it.
  AnswerPace(const Output& output, int64_t most, bool quiet);
  ~AnswerPace();
  AnswerPace(const AnswerPace&) = delete;
  AnswerPace& operator=(const AnswerPace&) = delete;

  void token();

 private:
  bool shown_;
  bool in_title_;
  int64_t most_;
  int64_t tokens_ = 0;
  bool title_set_ = false;
  std::chrono::steady_clock::time_point first_;  // token's time
  std::optional<Progress> bar_;
};

// "12 tokens, 16.2 s each; the other 88 take about 24 min".
std::string pace_text(int64_t tokens, int64_t most, double seconds_each);

// Tokens per second; none where nothing was timed. The first token comes out of the prefill.
std::optional<double> prefill_rate(const GenerateResult& result);
std::optional<double> decode_rate(const GenerateResult& result);

// "38 tokens, 21.3 tokens/s; prompt of 52 tokens (40 from the cache) in 0.8 s; stopped"
std::string summary(const GenerateResult& result);

// The fields {usage}, {speculation} and {timings} of a result.
JsonObject usage_json(const GenerateResult& result);
JsonObject speculation_json(const GenerateResult& result);
JsonObject timings_json(const GenerateResult& result, double load_seconds);

}  // namespace fathom::cli
