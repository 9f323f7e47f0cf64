// Showing a generation while it runs, and saying afterwards what it took. Shared by chat and
// generate.
#pragma once

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
