#include "cli/line_reader.h"

#include <editline/readline.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/log.h"
#include "base/system.h"

namespace fathom::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kHistoryLines = 1000;
constexpr int kKillLine = 0x15;       // Ctrl-U
constexpr int kReplacement = 0xfffd;  // for bytes that are not UTF-8
// After Ctrl-C the line is emptied first, and handed over next.
bool hand_over_line = false;
bool was_interrupted = false;

// A character for libedit, which asks for code points where it is told to use this function.
int next_character(FILE* stream) {
  if (hand_over_line) {
    hand_over_line = false;
    return '\n';
  }
  const int first = std::fgetc(stream);
  if (first == EOF) {
    const bool interrupted = std::ferror(stream) != 0 && errno == EINTR;
    std::clearerr(stream);
    if (!interrupted) return -1;
    hand_over_line = was_interrupted = true;
    return kKillLine;
  }
  if (first < 0x80) return first;
  if (first < 0xc2 || first > 0xf4) return kReplacement;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  int character = first & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    const int byte = std::fgetc(stream);
    if (byte == EOF) return -1;
    if ((byte & 0xc0) != 0x80) {
      std::ungetc(byte, stream);  // the next character, perhaps the line's end
      return kReplacement;
    }
    character = character << 6 | (byte & 0x3f);
  }
  return character;
}

void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Creates the file for its owner's eyes only; false where that cannot be done.
bool prepare_history(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (FILE* file = std::fopen(path.c_str(), "a")) {
    std::fclose(file);
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, error);
    return true;
  }
  return false;
}

}  // namespace

LineReader::LineReader(const std::string& history_file)
    : interactive_(system::stdin_is_terminal()), history_file_(history_file) {
  if (!interactive_) return;
  use_utf8();
  rl_readline_name = "fathom";
  // Answers go to standard output, which may be a file; the line being typed should not.
  rl_outstream = system::stdout_is_terminal() ? stdout : stderr;
  rl_catch_signals = 0;
  rl_getc_function = next_character;
  using_history();
  stifle_history(kHistoryLines);
  if (!history_file_.empty() && !prepare_history(history_file_)) {
    log::warning("{}: cannot be written; the history will not be kept", history_file_);
    history_file_.clear();
  }
  if (!history_file_.empty()) read_history(history_file_.c_str());
}

LineReader::Event LineReader::read(const std::string& prompt, std::string* line) {
  line->clear();
  if (!interactive_) {
    if (!std::getline(std::cin, *line)) return Event::end;
    if (line->ends_with('\r')) line->pop_back();
    return Event::line;
  }
  hand_over_line = was_interrupted = false;
  char* typed = readline(prompt.c_str());
  if (typed == nullptr) return Event::end;
  *line = typed;
  std::free(typed);  // readline() allocates with malloc
  return was_interrupted ? Event::interrupted : Event::line;
}

void LineReader::remember(const std::string& line) {
  if (!interactive_ || line.empty()) return;
  add_history(line.c_str());
  if (!history_file_.empty()) write_history(history_file_.c_str());
}

std::string default_history_file() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/fathom/history";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.local/state/fathom/history";
  }
  return "";
}

}  // namespace fathom::cli
