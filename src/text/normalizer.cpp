#include "text/normalizer.h"

#include "base/error.h"

namespace fathom {
namespace {

// The most that any sound file makes of a text: compatibility forms turn 3 bytes into 33, a
// replaced character becomes a short marker. Beyond that a file is after the machine's memory.
size_t most_bytes(size_t text_bytes) { return (size_t{1} << 16) + 64 * text_bytes; }

void check_growth(size_t before, size_t after) {
  if (after > most_bytes(before)) {
    fail_input("normalizer: makes {} bytes or more of a text of {} bytes", after, before);
  }
}

std::string replace(std::string_view text, const ReplaceStep& step, Pattern::Scratch& scratch,
                    size_t original_bytes) {
  std::string out;
  size_t copied = 0;
  step.matcher.for_each(text, scratch, [&](const Pattern::Match& match) {
    out.append(text.substr(copied, match.begin - copied));
    out.append(step.content);
    copied = match.end;
    check_growth(original_bytes, out.size());
  });
  out.append(text.substr(copied));
  return out;
}

}  // namespace

std::string Normalizer::run(std::string_view text, Pattern::Scratch& scratch) const {
  std::string out(text);
  for (const NormalizerStep& step : steps_) {
    if (const auto* form = std::get_if<unicode::Form>(&step)) {
      out = unicode::normalise(out, *form);
    } else if (std::holds_alternative<LowercaseStep>(step)) {
      out = unicode::lowercase(out);
    } else if (const auto* prepend = std::get_if<PrependStep>(&step)) {
      if (!out.empty()) out.insert(0, prepend->text);
    } else {
      out = replace(out, std::get<ReplaceStep>(step), scratch, text.size());
    }
    check_growth(text.size(), out.size());
  }
  return out;
}

}  // namespace fathom
