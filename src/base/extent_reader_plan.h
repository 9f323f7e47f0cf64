// The part of an ExtentReader that all ways of reading have in common.
#pragma once

#include <memory>
#include <string>

#include "base/extent_reader_copies.h"
#include "base/extent_reader_raw.h"

namespace fathom {

struct PlannedReaderParts {
  std::unique_ptr<RawReader> raw;
  IoMode mode;
  FileCopies copies;
  uint64_t piece_bytes;
  int depth;
  std::string refused;  // modes that were tried in vain, and why
};

// Extents become pieces, demand goes before background, what fails is repeated and then looked for
// in another copy.
std::unique_ptr<ExtentReader> make_planned_reader(PlannedReaderParts parts);

}  // namespace fathom
