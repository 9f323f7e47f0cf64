#include "cli/html.h"

#include "text/utf8_stream.h"

namespace fathom::cli {

std::string escaped_html(std::string_view text) {
  std::string safe;
  for (const char c : repair_utf8(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        // Controls mean nothing to a page, and some are forbidden in one.
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          safe += "\xef\xbf\xbd";
        } else {
          safe += c;
        }
    }
  }
  return safe;
}

}  // namespace fathom::cli
