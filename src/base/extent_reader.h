// Large reads from files, many in flight at once, past the page cache where the system allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace fathom {

// How reads are made. `automatic` takes the first that works in this order, by trying.
enum class IoMode { automatic, uring_direct, threads_direct, threads_buffered };
const char* io_mode_name(IoMode mode);  // "auto", "io_uring", "pread-direct", "pread"
// Error(usage) where the name is unknown.
IoMode io_mode_named(std::string_view name);

// Demand reads go before background reads (lookahead), which start only where nothing else waits.
enum class ReadPriority { demand, background };

// Some bytes of one of the reader's files.
struct Extent {
  int file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Why a read was given up.
struct ReadFailure {
  std::string path;
  uint64_t offset = 0;  // of the first byte that could not be had
  std::string problem;  // "Input/output error", "the file ends here"
};

struct ReaderCounters {
  uint64_t demand_bytes = 0;      // bytes asked for (not those of alignment), landed
  uint64_t background_bytes = 0;  // the same for background reads
  uint64_t device_bytes = 0;      // with alignment and repeats
  uint64_t reads = 0;             // pieces
  uint64_t retries = 0;           // pieces read again after an error or a short read
  double demand_seconds = 0;      // wall time during which a demand read was outstanding
};

// Owned by one thread, which starts reads and collects them. Each extent is cut into pieces of a
// few MiB; a piece that fails for a passing reason or comes short is repeated a bounded number of
// times. Reads of one file may come from several copies of it (on other disks), which share the
// load by how fast each of them is.
class ExtentReader {
 public:
  // Landing places begin at a multiple of this and receive the whole blocks around an extent.
  static constexpr uint64_t kBlock = 4096;
  using Ticket = uint64_t;

  struct Finished {
    Ticket ticket = 0;
    std::optional<ReadFailure> failure;
    bool dropped = false;  // by drop_background(), before it was read
  };

  // Where an extent's first byte lands, counted from the landing place's beginning, and how many
  // bytes the landing place must have.
  static uint64_t landing_offset(const Extent& extent) { return extent.offset % kBlock; }
  static uint64_t landing_bytes(const Extent& extent) {
    return (landing_offset(extent) + extent.bytes + kBlock - 1) / kBlock * kBlock;
  }

  virtual ~ExtentReader() = default;

  virtual IoMode mode() const = 0;
  // One line for people: "io_uring, O_DIRECT, 4 MiB pieces, 32 in flight, registered buffers".
  virtual std::string description() const = 0;
  // Memory into which most reads will go, to be registered with the system where its limits allow;
  // false where they do not, which changes nothing but speed.
  virtual bool register_memory(std::span<std::byte> memory) = 0;

  // Starts to read; never waits for the disk. `into` is a landing place, left alone by the caller
  // until the ticket is finished. Tickets in flight are different from each other.
  virtual void start(Ticket ticket, const Extent& extent, std::byte* into,
                     ReadPriority priority) = 0;
  // What began as a background read is now waited for.
  virtual void promote(Ticket ticket) = 0;
  // Background reads that no piece has begun of are given up and finish as dropped.
  virtual void drop_background() = 0;
  // A finished read, in the order of landing; waits for one if asked to and any is outstanding.
  virtual std::optional<Finished> next(bool wait) = 0;
  virtual size_t outstanding() const = 0;

  virtual ReaderCounters counters() const = 0;
};

// paths[file] lists the copies of one file, the first one being the one that errors name. Files
// stay open; an Error(io) names a file that cannot be opened or that is shorter than its first
// copy. A forced mode that is refused is an Error(io) that says why; `automatic` says in
// description() what was refused.
struct ExtentReaderOptions {
  std::vector<std::vector<std::string>> paths;
  IoMode mode = IoMode::automatic;
  uint64_t piece_bytes = uint64_t{4} << 20;
  int depth = 32;  // pieces in flight
};
std::unique_ptr<ExtentReader> open_extent_reader(const ExtentReaderOptions& options);

}  // namespace fathom
