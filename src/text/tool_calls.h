// Tool calls in an answer, recognised while it streams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/tool_markers.h"

namespace fathom {

// A piece of an answer.
struct ToolPiece {
  enum class Kind {
    content,    // text of the answer
    begins,     // a call; text: the function's name
    arguments,  // more of its arguments' JSON text
    ends,       // it is whole: its arguments are a JSON object
    broken,     // it is none; its text, markers included, follows as content
  };
  Kind kind = Kind::content;
  std::string text;
};

// Markers are found by id where the vocabulary has them as tokens (their spelling is text then),
// else in the text. Calls outside of <calls begin> count too, as does a last one whose end is
// missing; a fence around the arguments may be left out.
class ToolCallParser {
 public:
  explicit ToolCallParser(const Tokenizer& tokenizer);

  std::optional<ToolMarker> marker(TokenId id) const;

  // Text of the answer, and a marker's token.
  std::vector<ToolPiece> push(std::string_view text);
  std::vector<ToolPiece> push(ToolMarker marker);
  // The answer's end. What is no whole call by then is content.
  std::vector<ToolPiece> finish();

  // Bytes of text of which nothing was told yet, because a marker may come of them.
  size_t held_bytes() const { return held_.size(); }

 private:
  using Pieces = std::vector<ToolPiece>;
  enum class State { content, between, type, name, arguments };

  void take_text(std::string_view text, Pieces& out);
  void take_marker(ToolMarker marker, Pieces& out);
  void begin_call();
  void take_name(Pieces& out);
  void take_arguments(std::string_view text, Pieces& out);
  bool end_call(Pieces& out);
  // What was taken for a call, and `text` after it, is content.
  void give_back(std::string_view text, Pieces& out);

  TokenId ids_[kToolMarkers];  // -1: the vocabulary does not have it
  State state_ = State::content;
  std::string held_;   // may become a marker
  std::string block_;  // what give_back() gives
  bool told_ = false;  // the call's beginning was told

  std::string word_;       // the type or the name so far, or what precedes the arguments
  std::string arguments_;  // told
  std::string tail_;       // blanks and a fence, which may end the arguments
};

}  // namespace fathom
