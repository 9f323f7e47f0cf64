// Experts are not read from disk on Windows so far: models that fit into memory run.
#include "base/extent_reader_raw.h"

namespace fathom {

RawOpened open_raw_reader(const RawReaderOptions&) {
  return {nullptr, "reading experts from disk is not available on Windows"};
}

void forget_cached(const std::string&, uint64_t, uint64_t) {}

}  // namespace fathom
