// Sizes and times as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

// "20G" is 20 GiB, "512M", "64K", "1.5T"; a plain number is bytes. Also accepts a trailing
// "iB"/"B". Throws Error(usage) naming `what`.
uint64_t parse_size(std::string_view text, std::string_view what);
// "4.82 GiB", "311 MiB", "17 KiB", "96 B".
std::string format_size(uint64_t bytes);
// "0.8 s", "47 s", "3 min 20 s", "2 h 5 min".
std::string format_duration(double seconds);

}  // namespace fathom
