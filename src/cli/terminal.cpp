#include "cli/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/system.h"

namespace fathom::cli {

Output::Output() : terminal_(system::stdout_is_terminal()), styled_(wants_style(terminal_)) {}

void Output::write(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    fail(ErrorKind::io, "standard output: {}", std::strerror(errno));
  }
}

void Output::write_foreign(std::string_view text) {
  if (terminal_) {
    write(without_controls(text));
  } else {
    write(text);
  }
}

void Output::flush() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail(ErrorKind::io, "standard output: {}", std::strerror(errno != 0 ? errno : EIO));
  }
}

void Output::dim(bool on) {
  if (!styled_ || dimmed_ == on) return;
  dimmed_ = on;
  write(on ? "\x1b[2m" : "\x1b[0m");
}

bool wants_style(bool is_terminal) {
  if (!is_terminal) return false;
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) != "dumb";
}

std::string without_controls(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string clean;
  clean.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      clean += kReplacement;
    } else if (byte == 0xc2 && i + 1 < text.size() &&
               static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      clean += kReplacement;  // U+0080 to U+009F: some terminals obey these too
      ++i;
    } else {
      clean += text[i];
    }
  }
  return clean;
}

}  // namespace fathom::cli
