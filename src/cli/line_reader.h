// Lines from a person (with editing and history) or from a pipe.
#pragma once

#include <string>

namespace fathom::cli {

class LineReader {
 public:
  enum class Event {
    line,
    interrupted,  // Ctrl-C while typing: what was typed is gone
    end,
  };

  // With a terminal on standard input lines can be edited, and those before are kept in
  // `history_file` ("" for none).
  explicit LineReader(const std::string& history_file);

  bool interactive() const { return interactive_; }
  // `prompt` is shown on terminals only. The newline is not part of the line.
  Event read(const std::string& prompt, std::string* line);
  // Adds a message to the history, here and in the file.
  void remember(const std::string& line);

 private:
  bool interactive_;
  std::string history_file_;
};

// $XDG_STATE_HOME/fathom/history, or ~/.local/state/fathom/history; "" where there is no home.
std::string default_history_file();

}  // namespace fathom::cli
