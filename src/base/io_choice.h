// How fast files are read, and the way of reading that follows from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/extent_reader.h"

namespace fathom {

// Reads for a while, always `slots` extents at a time.
struct ReadLoad {
  // What a slot reads next; nothing where it has no more to read.
  std::function<std::optional<Extent>(size_t slot)> next;
  size_t slots = 1;
  std::span<std::byte> memory;  // from a block's boundary on, in equal parts for the slots
  double seconds = 0;
  const CancelToken* cancel = nullptr;
};

struct ReadRate {
  uint64_t bytes = 0;
  double seconds = 0;  // until the last byte landed

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

// Has the system provide the memory now: what it takes to do so would count as slow reading.
void touch(std::span<std::byte> memory);

// A read that fails is an Error(io) with file and offset.
ReadRate measure_reads(ExtentReader& reader, const ReadLoad& load);

struct IoMeasurement {
  IoMode mode = IoMode::automatic;
  double bytes_per_second = 0;
  std::string refused;  // why there is no measurement
};

struct IoChoice {
  IoMode best = IoMode::threads_buffered;
  std::vector<IoMeasurement> modes;  // all but automatic, in the order in which they are preferred
};

// The mode to take of those measured: the first one unless a later one is more than 20% faster.
IoMode best_io_mode(std::span<const IoMeasurement> modes);

// Reads at random places of the biggest of the files, in pieces and depth as the options say, each
// mode for about `seconds` and with `memory` bytes to land in, which are given back. Where the
// options force a mode, only that one is measured, and a refusal is an Error(io).
IoChoice measure_io_modes(const ExtentReaderOptions& options, double seconds,
                          uint64_t memory = uint64_t{64} << 20,
                          const CancelToken* cancel = nullptr);

// "io_uring 1.31 GB/s, pread-direct 1.28 GB/s, pread refused (...)".
std::string describe(const IoChoice& choice);

}  // namespace fathom
