// What a tokenizer file does to a text before it is split.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/unicode.h"

namespace fathom {

struct LowercaseStep {};
struct PrependStep {
  std::string text;  // put before every text that is not empty
};
struct ReplaceStep {
  Matcher matcher;
  std::string content;
};
using NormalizerStep = std::variant<unicode::Form, LowercaseStep, PrependStep, ReplaceStep>;

class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }
  bool empty() const { return steps_.empty(); }
  // `text` must be valid UTF-8. A text that grows out of all proportion is an Error(input).
  std::string run(std::string_view text, Pattern::Scratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace fathom
