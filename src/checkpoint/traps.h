// What a reader of this very checkpoint may fall over.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fathom {

struct Inspection;

struct Trap {
  std::string id;        // "index-total-size", ...
  bool harmful = false;  // something may go wrong; otherwise good to know
  std::string title;
  std::string detail;
  std::vector<std::pair<std::string, int64_t>> values;  // the numbers in it, for programs
};

// Of an inspection that is complete but for its traps.
std::vector<Trap> find_traps(const Inspection& inspection);

}  // namespace fathom
