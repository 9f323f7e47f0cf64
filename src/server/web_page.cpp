#include "server/web_page.h"

namespace fathom::server {

std::optional<std::string_view> web_page() { return std::nullopt; }
std::string_view web_page_policy() { return ""; }
std::string_view web_page_absence() { return "the program was built without it"; }

}  // namespace fathom::server
