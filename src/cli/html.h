// Text inside a page.
#pragma once

#include <string>
#include <string_view>

namespace fathom::cli {

// Text of any bytes, harmless between tags and inside quoted attributes; U+FFFD where it is no
// UTF-8 or a control.
std::string escaped_html(std::string_view text);

}  // namespace fathom::cli
