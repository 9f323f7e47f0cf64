// The reasoning contract: thought and answer apart.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/tokenizer.h"

namespace fathom {

// What a step of generation adds to each part. Never both in one step's order: reasoning comes
// before content.
struct ReasoningDelta {
  std::string reasoning;
  std::string content;
  void append(const ReasoningDelta& more) {
    reasoning += more.reasoning;
    content += more.content;
  }
};

// Splits a model's output at </think>: by id where the vocabulary has the tag as one token (a tag
// spelled out in pieces inside a thought is text), by text where it has not (then also when the tag
// is cut across tokens). Handles: a prompt that already opened the thought, a model that opens it
// itself (also where the prompt had), one that never closes it, empty thoughts, text before the
// opening tag (it is content). The white space just after either tag and just before the closing
// one belongs to neither part, nor does white space alone before the opening tag; so a thought of
// white space yields no reasoning and no delta. After the first close tags are plain text; so is an
// opening tag within a thought's words, and a closing one after an answer that no thought preceded
// (at its very beginning it closes an empty thought). Text that might still become part of a tag,
// or white space that might be followed by one, is held back; finish() flushes it. The deltas,
// joined, do not depend on the cuts.
class ReasoningSplitter {
 public:
  struct Tags {
    std::optional<TokenId> open;   // <think> as one token
    std::optional<TokenId> close;  // </think> as one token
  };
  static Tags tags_of(const Tokenizer& tokenizer);

  // Where the prompt has left the output: with nothing opened, in an opened thought (see
  // prompt_opens_thought), within words of the thought, or within words of the answer.
  enum class Start { fresh, thought, within_thought, within_answer };
  ReasoningSplitter(Tags tags, Start start);

  // One sampled token and the text that it made visible (valid UTF-8, may be empty or belong to
  // earlier tokens; see Utf8Stream). For ids that are a tag, `text` holds only what was pending
  // before it.
  ReasoningDelta push(TokenId id, std::string_view text);
  // Text without ids (tags are found in the text).
  ReasoningDelta push_text(std::string_view text);
  // What is held back, as it is: nothing that follows makes a tag of it.
  ReasoningDelta flush();

  bool inside_thought() const;
  // Bytes of text that are held back.
  size_t held_bytes() const { return held_.size(); }

 private:
  enum class State { before, inside, after_close, content };
  void feed(std::string_view text, bool find_tags, ReasoningDelta& out);
  void release(bool find_tags, ReasoningDelta& out);
  void emit(std::string_view text, ReasoningDelta& out);
  void open_tag(ReasoningDelta& out);
  void close_tag(ReasoningDelta& out);
  std::pair<bool, bool> tags_that_count(bool find_tags) const;

  Tags tags_;
  State state_;
  bool reasoning_begun_ = false;
  bool content_begun_ = false;
  std::string held_;
};

// True where a rendered prompt ends inside an opened thought: "<think>" and then only white space.
bool prompt_opens_thought(std::string_view prompt_text);

}  // namespace fathom
