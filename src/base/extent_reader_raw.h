// What stands between an ExtentReader's planning (extents, order, repeats, copies of a file) and
// the operating system: one small interface, implemented once per way of reading. Tests put a
// reader that fails on purpose in between.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/extent_reader.h"

namespace fathom {

using ReadClock = std::chrono::steady_clock;

// One read. Offset, length and landing place are multiples of ExtentReader::kBlock.
struct RawRead {
  int slot = 0;  // told back when it is over; a slot has one read at a time
  int file = 0;  // index into RawReaderOptions::paths
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* into = nullptr;
};

struct RawDone {
  int slot = 0;
  int64_t result = 0;          // bytes read, or an errno value negated
  ReadClock::time_point time;  // when it was over, whenever it is collected
};

// Used by one thread. Its destructor returns when nothing is written to any landing place any more.
class RawReader {
 public:
  virtual ~RawReader() = default;

  // At most RawReaderOptions::depth reads at once; none waits for the disk.
  virtual void submit(const RawRead& read) = 0;
  // Sends off what was submitted.
  virtual void flush() = 0;
  // A read that is over, in the order in which they ended; waits for one as long as `patience`.
  virtual std::optional<RawDone> collect(ReadClock::duration patience) = 0;
  // While no read goes on.
  virtual bool register_memory(std::span<std::byte> memory) = 0;
  // What people may want to know: "registered files, registered buffers", "16 threads".
  virtual std::string notes() const = 0;
};

struct RawReaderOptions {
  IoMode mode = IoMode::threads_buffered;  // not automatic
  std::vector<std::string> paths;
  int depth = 32;
};

// A reader, or why the system refuses this mode.
struct RawOpened {
  std::unique_ptr<RawReader> reader;
  std::string refused;
};

// Error(io) where a file cannot be opened in any mode.
RawOpened open_raw_reader(const RawReaderOptions& options);

using RawFactory = std::function<RawOpened(const RawReaderOptions& options)>;
std::unique_ptr<ExtentReader> open_extent_reader(const ExtentReaderOptions& options,
                                                 const RawFactory& factory);

// Lets the system forget what it keeps of these bytes in memory, so that the next read of them asks
// the disk. Bytes that are not on the disk yet stay.
void forget_cached(const std::string& path, uint64_t offset, uint64_t bytes);

}  // namespace fathom
