// Messages to the person who runs the program; they go to stderr, never to stdout.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace fathom::log {

enum class Level { debug, info, warning, error, off };

void set_level(Level level);
// Prefixes are coloured on terminals unless this is told.
void never_colour();
void write(Level level, const std::string& message);

template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::info, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::warning, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  write(Level::debug, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace fathom::log
