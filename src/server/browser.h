// What keeps pages in a browser apart: origins and names of this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fathom::server {

// `allowed` holds origins such as "https://chat.example", or "*".
bool allows_origin(const std::vector<std::string>& allowed, std::string_view origin);
// Whether a page of this origin was loaded from this Host.
bool origin_is(std::string_view origin, std::string_view host);
// "localhost:8080", "127.0.0.1", "[::1]:80": names that lead to this machine whoever asks.
bool names_this_machine(std::string_view host);

}  // namespace fathom::server
