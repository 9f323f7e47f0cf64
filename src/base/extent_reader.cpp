#include "base/extent_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/extent_reader_plan.h"
#include "base/file.h"
#include "base/units.h"

namespace fathom {
namespace {

struct NamedMode {
  IoMode mode;
  const char* name;
};
constexpr std::array<NamedMode, 4> kModes{{{IoMode::automatic, "auto"},
                                           {IoMode::uring_direct, "io_uring"},
                                           {IoMode::threads_direct, "pread-direct"},
                                           {IoMode::threads_buffered, "pread"}}};

// An extent is found in every copy or in none.
void check_copies(const std::vector<std::vector<std::string>>& paths) {
  for (const std::vector<std::string>& copies : paths) {
    uint64_t size = 0;
    for (const std::string& path : copies) {
      const File file(path);
      if (&path == &copies.front()) size = file.size();
      if (file.size() < size) {
        fail(ErrorKind::io,
             "{}: {} bytes are fewer than the {} of {}, of which it should be a copy", path,
             file.size(), size, copies.front());
      }
    }
  }
}

}  // namespace

const char* io_mode_name(IoMode mode) {
  for (const NamedMode& named : kModes) {
    if (named.mode == mode) return named.name;
  }
  return "?";
}

IoMode io_mode_named(std::string_view name) {
  for (const NamedMode& named : kModes) {
    if (named.name == name) return named.mode;
  }
  fail_usage("\"{}\" is no way of reading: auto, io_uring, pread-direct or pread", name);
}

std::unique_ptr<ExtentReader> open_extent_reader(const ExtentReaderOptions& options) {
  return open_extent_reader(options, open_raw_reader);
}

std::unique_ptr<ExtentReader> open_extent_reader(const ExtentReaderOptions& options,
                                                 const RawFactory& factory) {
  constexpr uint64_t kMostPiece = uint64_t{1} << 30;  // what one read() takes
  if (options.piece_bytes < ExtentReader::kBlock || options.piece_bytes > kMostPiece) {
    fail_usage("pieces of {} bytes: between {} and {} can be read at once", options.piece_bytes,
               ExtentReader::kBlock, kMostPiece);
  }
  if (options.depth < 1 || options.depth > 1024) {
    fail_usage("{} pieces in flight: between 1 and 1024 are possible", options.depth);
  }
  FileCopies copies(options.paths);
  check_copies(options.paths);

  RawReaderOptions raw{options.mode, copies.paths(), options.depth};
  if (options.mode != IoMode::automatic) {
    RawOpened opened = factory(raw);
    if (opened.reader == nullptr) {
      fail(ErrorKind::io, "cannot read with {}: {}", io_mode_name(options.mode), opened.refused);
    }
    return make_planned_reader({std::move(opened.reader), options.mode, std::move(copies),
                                options.piece_bytes, options.depth, ""});
  }
  std::string refused;
  for (const IoMode mode :
       {IoMode::uring_direct, IoMode::threads_direct, IoMode::threads_buffered}) {
    raw.mode = mode;
    RawOpened opened = factory(raw);
    if (opened.reader != nullptr) {
      return make_planned_reader({std::move(opened.reader), mode, std::move(copies),
                                  options.piece_bytes, options.depth, refused});
    }
    // Modes often have the same reason, which is said once.
    if (refused.find(opened.refused) == std::string::npos) {
      refused += (refused.empty() ? "" : "; ") + opened.refused;
    }
  }
  fail(ErrorKind::io, "no way of reading works: {}", refused);
}

}  // namespace fathom
