// Standard output: checked writes, dimmed text where a person looks at it.
#pragma once

#include <string>
#include <string_view>

namespace fathom::cli {

class Output {
 public:
  Output();

  bool is_terminal() const { return terminal_; }

  // Every failure (a closed pipe, a full disk) is an Error(io).
  void write(std::string_view text);
  // What a model or a file said: on a terminal, control characters are shown and do nothing.
  void write_foreign(std::string_view text);
  void flush();

  // Dims what follows; nothing where output is not a terminal, or colour is unwanted.
  void dim(bool on);

 private:
  bool terminal_;
  bool styled_;
  bool dimmed_ = false;
};

// True where a stream that is (or is not) a terminal should get colours and dimmed text: NO_COLOR
// and TERM=dumb say no.
bool wants_style(bool is_terminal);

// `text` without control characters other than newline and tab; they become U+FFFD.
std::string without_controls(std::string_view text);

}  // namespace fathom::cli
