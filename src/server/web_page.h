// The chat page at /, where the program was built with it.
#pragma once

#include <optional>
#include <string_view>

namespace fathom::server {

// One HTML file that needs nothing else.
std::optional<std::string_view> web_page();
// Its Content-Security-Policy: its own scripts and styles, nothing of elsewhere; "" without a page.
std::string_view web_page_policy();
// Why there is no page, as half a sentence; "" where there is one.
std::string_view web_page_absence();

}  // namespace fathom::server
