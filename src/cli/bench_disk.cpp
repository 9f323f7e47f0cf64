// bench disk: how fast this disk gives experts, by pattern and by way of reading.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/buffer.h"
#include "base/error.h"
#include "base/extent_reader_raw.h"
#include "base/file.h"
#include "base/io_choice.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/disk_subject.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"

namespace fathom::cli {
namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;
// What is read again must not have run through all of a disk's own memory in between.
constexpr uint64_t kStreamBytes = uint64_t{1} << 30;
constexpr std::array<IoMode, 3> kModes{IoMode::uring_direct, IoMode::threads_direct,
                                       IoMode::threads_buffered};
constexpr const char* kPageCache = "page cache";  // read() as other programs do it

enum class Pattern { stream, again, streams, scattered, experts };
constexpr std::array<Pattern, 5> kPatterns{Pattern::stream, Pattern::again, Pattern::streams,
                                           Pattern::scattered, Pattern::experts};

struct Cell {
  Pattern pattern;
  std::string mode;
  double bytes_per_second;
};

struct Refusal {
  std::string mode;
  std::string why;
};

class DiskBench {
 public:
  DiskBench(DiskSubject subject, double seconds)
      : subject_(std::move(subject)),
        // Every pattern in every mode, and two with the page cache.
        slice_(seconds / (kPatterns.size() * kModes.size() + 2)),
        memory_(std::max(kPiece * 32, subject_.expert_slots() * subject_.slot_bytes())),
        progress_("measuring", kPatterns.size() * kModes.size() + 2, ProgressUnit::items) {}

  void run() {
    touch(memory_.bytes());
    for (size_t turn = 0; turn < kModes.size(); ++turn) measure_mode(turn);
    measure_page_cache(kModes.size());
    chosen_ = best_io_mode(experts_);
  }

  size_t in_flight(Pattern pattern) const {
    return pattern == Pattern::streams     ? 4
           : pattern == Pattern::scattered ? 32
           : pattern == Pattern::experts   ? subject_.expert_slots()
                                           : 1;
  }
  uint64_t read_bytes(Pattern pattern) const {
    return pattern == Pattern::experts ? subject_.expert_bytes() : kPiece;
  }
  const DiskSubject& subject() const { return subject_; }
  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  IoMode chosen() const { return chosen_; }
  // What a reader of the chosen mode says of itself.
  const std::string& chosen_description() const {
    return descriptions_[static_cast<size_t>(std::find(kModes.begin(), kModes.end(), chosen_) -
                                             kModes.begin())];
  }
  const Cell* find(Pattern pattern, const std::string& mode) const {
    for (const Cell& cell : cells_) {
      if (cell.pattern == pattern && cell.mode == mode) return &cell;
    }
    return nullptr;
  }

 private:
  // A part of a file that is read from its beginning to its end.
  struct Stream {
    int file = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t at = 0;

    std::optional<Extent> next() {
      if (at >= end) return std::nullopt;
      const Extent extent{file, at, std::min(kPiece, end - at)};
      at += extent.bytes;
      return extent;
    }
  };

  // Stream `index` of `count` in one file, for the `turn`th mode: nobody reads what another one has
  // read before, or the disk's own memory would be measured.
  Stream stream(int file, size_t index, size_t count, size_t turn) const {
    const uint64_t part = subject_.size(file) / (count * (kModes.size() + 1));
    const uint64_t begin = part * (index * (kModes.size() + 1) + turn);
    return {file, begin, begin + std::min(std::max<uint64_t>(part, 1), kStreamBytes), begin};
  }

  void measure_mode(size_t turn) {
    const IoMode mode = kModes[turn];
    ExtentReaderOptions options;
    options.paths = subject_.copies();
    options.mode = mode;
    std::unique_ptr<ExtentReader> reader;
    try {
      reader = open_extent_reader(options);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::io) throw;
      refusals_.push_back({io_mode_name(mode), error.what()});
      experts_.push_back({mode, 0, error.what()});
      progress_.add(kPatterns.size());
      return;
    }
    reader->register_memory(memory_.bytes());
    Stream one = stream(subject_.largest(0), 0, 1, turn);
    for (const Pattern pattern : kPatterns) {
      ReadLoad load;
      load.slots = in_flight(pattern);
      load.memory = memory_.bytes();
      load.seconds = slice_;
      load.cancel = &interrupt_token();
      std::vector<Stream> streams;
      for (size_t i = 0; i < 4; ++i) {
        const size_t same_file = (4 + subject_.files() - 1) / subject_.files();
        streams.push_back(stream(subject_.largest(i), i / subject_.files(), same_file, turn));
      }
      load.next = [&](size_t slot) -> std::optional<Extent> {
        std::optional<Extent> extent;
        switch (pattern) {
          case Pattern::stream:
          case Pattern::again:
            extent = one.next();
            break;
          case Pattern::streams:
            extent = streams[slot].next();
            break;
          case Pattern::scattered:
            extent = subject_.random_extent(kPiece);
            break;
          case Pattern::experts:
            extent = subject_.next_of_expert();
            break;
        }
        if (extent && mode == IoMode::threads_buffered) {
          forget_cached(subject_.path(extent->file), extent->offset, extent->bytes);
        }
        return extent;
      };
      if (pattern == Pattern::again) {
        one.end = one.at;
        one.at = one.begin;
      }
      add(pattern, io_mode_name(mode), measure_reads(*reader, load).bytes_per_second());
      if (pattern == Pattern::experts) {
        experts_.push_back({mode, cells_.back().bytes_per_second, ""});
      }
    }
    descriptions_[turn] = reader->description();
  }

  void measure_page_cache(size_t turn) {
    Stream one = stream(subject_.largest(0), 0, 1, turn);
    const File file(subject_.path(one.file));
    forget_cached(file.path(), one.begin, one.end - one.begin);
    for (const Pattern pattern : {Pattern::stream, Pattern::again}) {
      if (pattern == Pattern::again) {
        one.end = one.at;
        one.at = one.begin;
      }
      const auto began = ReadClock::now();
      ReadRate rate;
      while (rate.seconds < slice_) {
        const auto extent = one.next();
        if (!extent) break;
        interrupt_token().throw_if_cancelled();
        file.read_at(extent->offset, memory_.bytes().first(extent->bytes));
        rate.bytes += extent->bytes;
        rate.seconds = std::chrono::duration<double>(ReadClock::now() - began).count();
      }
      add(pattern, kPageCache, rate.bytes_per_second());
    }
    forget_cached(file.path(), one.begin, one.end - one.begin);
  }

  void add(Pattern pattern, const std::string& mode, double bytes_per_second) {
    cells_.push_back({pattern, mode, bytes_per_second});
    progress_.add(1);
  }

  DiskSubject subject_;
  double slice_;
  Buffer memory_;
  Progress progress_;
  std::vector<Cell> cells_;
  std::vector<Refusal> refusals_;
  std::vector<IoMeasurement> experts_;
  std::array<std::string, kModes.size()> descriptions_;
  IoMode chosen_ = IoMode::threads_buffered;
};

const char* json_name(Pattern pattern) {
  switch (pattern) {
    case Pattern::stream:
      return "one_stream";
    case Pattern::again:
      return "one_stream_again";
    case Pattern::streams:
      return "four_streams";
    case Pattern::scattered:
      return "scattered";
    case Pattern::experts:
      return "experts";
  }
  return "";
}

std::string label(Pattern pattern, const DiskBench& bench) {
  const std::string size =
      pattern == Pattern::experts ? format_size(bench.read_bytes(pattern)) : "4 MiB";
  switch (pattern) {
    case Pattern::stream:
      return "one stream, " + size + " each";
    case Pattern::again:
      return "the same bytes again";
    case Pattern::streams:
      return fmt::format("4 streams{}, {} each", bench.subject().files() >= 4 ? " of 4 shards" : "",
                         size);
    case Pattern::scattered:
      return "scattered, " + size + " each";
    case Pattern::experts:
      return "experts, " + size + " each";
  }
  return "";
}

// The best of what the disk itself gave, in any pattern and mode.
double fastest(const DiskBench& bench) {
  double best = 0;
  for (const Cell& cell : bench.cells()) {
    const bool from_memory = cell.pattern == Pattern::again || cell.mode == kPageCache;
    if (!from_memory) best = std::max(best, cell.bytes_per_second);
  }
  return best;
}

std::string as_json(const DiskBench& bench, double chosen_rate) {
  std::string results = "[";
  for (const Cell& cell : bench.cells()) {
    if (results.size() > 1) results += ",";
    results += JsonObject()
                   .text("pattern", json_name(cell.pattern))
                   .text("mode", cell.mode)
                   .natural("in_flight", bench.in_flight(cell.pattern))
                   .natural("read_bytes", bench.read_bytes(cell.pattern))
                   .number("bytes_per_second", cell.bytes_per_second)
                   .str();
  }
  std::string refused = "[";
  for (const Refusal& refusal : bench.refusals()) {
    if (refused.size() > 1) refused += ",";
    refused += JsonObject().text("mode", refusal.mode).text("why", refusal.why).str();
  }
  return JsonObject()
             .text("subject", bench.subject().name())
             .natural("files", bench.subject().files())
             .natural("expert_bytes", bench.subject().expert_bytes())
             .raw("results", results + "]")
             .raw("refused", refused + "]")
             .object("chosen", JsonObject()
                                   .text("pattern", json_name(Pattern::experts))
                                   .text("mode", io_mode_name(bench.chosen()))
                                   .text("description", bench.chosen_description())
                                   .number("bytes_per_second", chosen_rate)
                                   .number("of_fastest", chosen_rate / fastest(bench)))
             .str() +
         "\n";
}

}  // namespace

int run_command(const BenchDiskOptions& options, Output& output) {
  DiskSubject subject = options.file.empty() ? DiskSubject::of_model(options.folder)
                                             : DiskSubject::of_file(options.file);
  log::info("reading {} for about {:g} s", subject.name(), options.seconds);
  DiskBench bench(std::move(subject), options.seconds);
  bench.run();
  const Cell* chosen = bench.find(Pattern::experts, io_mode_name(bench.chosen()));
  const double chosen_rate = chosen != nullptr ? chosen->bytes_per_second : 0;
  if (options.output.json) {
    output.write(as_json(bench, chosen_rate));
    return kExitOk;
  }
  output.write(fmt::format("{:<30} {:>9}", "GB/s", "in flight"));
  for (const IoMode mode : kModes) output.write(fmt::format(" {:>13}", io_mode_name(mode)));
  output.write(fmt::format(" {:>13}\n", kPageCache));
  for (const Pattern pattern : kPatterns) {
    output.write(fmt::format("{:<30} {:>9}", label(pattern, bench), bench.in_flight(pattern)));
    for (size_t column = 0; column <= kModes.size(); ++column) {
      const Cell* cell =
          bench.find(pattern, column < kModes.size() ? io_mode_name(kModes[column]) : kPageCache);
      output.write(cell == nullptr ? fmt::format(" {:>13}", "-")
                                   : fmt::format(" {:>13.2f}", cell->bytes_per_second / 1e9));
    }
    output.write("\n");
  }
  for (const Refusal& refusal : bench.refusals()) {
    output.write(fmt::format("{}: {}\n", refusal.mode, refusal.why));
  }
  output.write(fmt::format(
      "experts will be read as: {}\n  {:.2f} GB/s, {:.0f}% of the fastest pattern\n",
      bench.chosen_description(), chosen_rate / 1e9, 100 * chosen_rate / fastest(bench)));
  return kExitOk;
}

}  // namespace fathom::cli
