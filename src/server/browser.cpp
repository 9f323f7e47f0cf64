#include "server/browser.h"

#include <algorithm>

namespace fathom::server {
namespace {

std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

bool allows_origin(const std::vector<std::string>& allowed, std::string_view origin) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [origin](const std::string& one) { return one == "*" || one == origin; });
}

bool origin_is(std::string_view origin, std::string_view host) {
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

bool names_this_machine(std::string_view host) {
  const std::string_view name = without_port(host);
  if (name == "localhost" || name == "[::1]") return true;
  return name.starts_with("127.") &&
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

}  // namespace fathom::server
