#include "base/io_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "base/buffer.h"
#include "base/error.h"
#include "base/extent_reader_raw.h"
#include "base/file.h"

namespace fathom {
namespace {

// So short a measurement scatters by a tenth, and a way that comes first leaves more of the
// processor to those who compute meanwhile: with threads in place of io_uring a token of a model on
// disk took 15% longer although the disk was as fast.
constexpr double kTie = 1.2;
// Disks and their neighbours have their moments; the better of the rounds counts.
constexpr int kRounds = 2;

double seconds_since(ReadClock::time_point began) {
  return std::chrono::duration<double>(ReadClock::now() - began).count();
}

// Places to read from that are the same in every run and different in every mode.
class RandomPlaces {
 public:
  uint64_t below(uint64_t end) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return end == 0 ? 0 : (state_ >> 11) % end;
  }

 private:
  uint64_t state_ = 20240101;
};

struct Subject {
  int file = 0;
  uint64_t size = 0;
};

Subject biggest_file(const ExtentReaderOptions& options) {
  Subject biggest;
  for (size_t file = 0; file < options.paths.size(); ++file) {
    if (options.paths[file].empty()) continue;
    const uint64_t size = File(options.paths[file][0]).size();
    if (size > biggest.size) biggest = {static_cast<int>(file), size};
  }
  return biggest;
}

}  // namespace

void touch(std::span<std::byte> memory) {
  for (size_t at = 0; at < memory.size(); at += ExtentReader::kBlock) memory[at] = std::byte{0};
}

ReadRate measure_reads(ExtentReader& reader, const ReadLoad& load) {
  const uint64_t part =
      load.memory.size() / load.slots / ExtentReader::kBlock * ExtentReader::kBlock;
  const auto began = ReadClock::now();
  ReadRate rate;
  std::vector<uint64_t> bytes(load.slots);
  std::vector<uint64_t> used(load.slots);
  const auto start = [&](size_t slot) {
    const std::optional<Extent> extent = load.next(slot);
    if (!extent) return;
    const uint64_t landing = ExtentReader::landing_bytes(*extent);
    if (landing > part) {
      fail(ErrorKind::io, "a read of {} bytes does not fit into {} bytes of memory", extent->bytes,
           part);
    }
    // Ever the same few MiB would stay in the processor's cache, which an expert's bytes do not.
    if (used[slot] + landing > part) used[slot] = 0;
    bytes[slot] = extent->bytes;
    reader.start(slot, *extent, load.memory.data() + slot * part + used[slot],
                 ReadPriority::demand);
    used[slot] += landing;
  };
  for (size_t slot = 0; slot < load.slots; ++slot) start(slot);
  std::optional<ReadFailure> failure;
  bool cancelled = false;
  while (const auto over = reader.next(true)) {
    if (over->failure && !failure) failure = over->failure;
    rate.bytes += bytes[over->ticket];
    rate.seconds = seconds_since(began);
    cancelled = cancelled || (load.cancel != nullptr && load.cancel->cancelled());
    // What has begun ends before anything is thrown: it is still written to memory.
    if (!failure && !cancelled && seconds_since(began) < load.seconds) start(over->ticket);
  }
  if (cancelled) load.cancel->throw_if_cancelled();
  if (failure) {
    fail(ErrorKind::io, "{}: cannot read at offset {}: {}", failure->path, failure->offset,
         failure->problem);
  }
  return rate;
}

IoMode best_io_mode(std::span<const IoMeasurement> modes) {
  const IoMeasurement* best = nullptr;
  for (const IoMeasurement& mode : modes) {
    if (!mode.refused.empty()) continue;
    if (best == nullptr || mode.bytes_per_second > best->bytes_per_second * kTie) best = &mode;
  }
  return best != nullptr ? best->mode : IoMode::threads_buffered;
}

IoChoice measure_io_modes(const ExtentReaderOptions& options, double seconds, uint64_t memory,
                          const CancelToken* cancel) {
  IoChoice choice;
  std::vector<IoMode> modes{options.mode};
  if (options.mode == IoMode::automatic) {
    modes = {IoMode::uring_direct, IoMode::threads_direct, IoMode::threads_buffered};
  }
  for (const IoMode mode : modes) choice.modes.push_back({mode, 0, ""});

  const Subject subject = biggest_file(options);
  const Buffer landing(std::max(memory, uint64_t{4} << 20));  // mapped: begins at a page
  touch(landing.bytes());
  // Reads as long as those of an expert where memory allows, enough of them to fill the queue.
  const size_t slots = 4;
  const uint64_t most = landing.size() / slots - 2 * ExtentReader::kBlock;
  const uint64_t bytes = std::min(most, subject.size);
  RandomPlaces places;
  for (int round = 0; round < kRounds; ++round) {
    for (IoMeasurement& measured : choice.modes) {
      if (!measured.refused.empty()) continue;
      ExtentReaderOptions one = options;
      one.mode = measured.mode;
      std::unique_ptr<ExtentReader> reader;
      try {
        reader = open_extent_reader(one);
      } catch (const Error& error) {
        if (options.mode != IoMode::automatic || error.kind() != ErrorKind::io) throw;
        measured.refused = error.what();
        continue;
      }
      reader->register_memory(landing.bytes());
      ReadLoad load;
      load.slots = slots;
      load.memory = landing.bytes();
      load.seconds = seconds / kRounds;
      load.cancel = cancel;
      load.next = [&](size_t) -> std::optional<Extent> {
        const Extent extent{subject.file, places.below(subject.size - bytes + 1), bytes};
        if (measured.mode == IoMode::threads_buffered) {
          // What the system still keeps of the file would be no measure of the disk.
          for (const std::string& copy : options.paths[static_cast<size_t>(subject.file)]) {
            forget_cached(copy, extent.offset, extent.bytes);
          }
        }
        return extent;
      };
      measured.bytes_per_second =
          std::max(measured.bytes_per_second, measure_reads(*reader, load).bytes_per_second());
    }
  }
  choice.best = best_io_mode(choice.modes);
  return choice;
}

std::string describe(const IoChoice& choice) {
  std::string text;
  for (const IoMeasurement& mode : choice.modes) {
    if (!text.empty()) text += ", ";
    text += io_mode_name(mode.mode);
    text += mode.refused.empty() ? fmt::format(" {:.2f} GB/s", mode.bytes_per_second / 1e9)
                                 : " refused (" + mode.refused + ")";
  }
  return text;
}

}  // namespace fathom
