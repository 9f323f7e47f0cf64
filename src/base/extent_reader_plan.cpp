#include "base/extent_reader_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/units.h"

namespace fathom {
namespace {

using Time = ReadClock::time_point;

constexpr uint64_t round_down(uint64_t bytes) {
  return bytes / ExtentReader::kBlock * ExtentReader::kBlock;
}
constexpr uint64_t round_up(uint64_t bytes) { return round_down(bytes + ExtentReader::kBlock - 1); }

// A read is repeated after these times; a disk that resets itself takes a moment.
constexpr std::chrono::milliseconds kBackOff[] = {
    std::chrono::milliseconds(1), std::chrono::milliseconds(5), std::chrono::milliseconds(25),
    std::chrono::milliseconds(125)};
constexpr int kMostRepeats = static_cast<int>(std::size(kBackOff));

bool may_pass(int problem) {
  return problem == EIO || problem == EAGAIN || problem == EINTR || problem == EBUSY ||
         problem == ENOMEM || problem == ENOBUFS || problem == ETIMEDOUT;
}

class PlannedReader final : public ExtentReader {
 public:
  explicit PlannedReader(PlannedReaderParts parts)
      : raw_(std::move(parts.raw)),
        mode_(parts.mode),
        copies_(std::move(parts.copies)),
        piece_bytes_(round_down(parts.piece_bytes)),
        depth_(parts.depth),
        // Enough to keep a disk busy, few enough that a demand read soon has its turn.
        background_depth_(std::max(1, parts.depth / 4)),
        refused_(std::move(parts.refused)),
        pieces_(static_cast<size_t>(parts.depth)) {
    for (int slot = depth_ - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  }

  IoMode mode() const override { return mode_; }
  std::string description() const override;
  bool register_memory(std::span<std::byte> memory) override {
    return raw_->register_memory(memory);
  }
  void start(Ticket ticket, const Extent& extent, std::byte* into, ReadPriority priority) override;
  void promote(Ticket ticket) override;
  void drop_background() override;
  std::optional<Finished> next(bool wait) override;
  size_t outstanding() const override { return outstanding_; }
  ReaderCounters counters() const override;

 private:
  static constexpr int kNone = -1;

  // In which list a request is; `reading` (all its pieces are begun) and `unused` have none.
  enum class Place { unused, demand, background, reading, finished };

  struct Request {
    Ticket ticket = 0;
    Extent extent;
    std::byte* into = nullptr;
    uint64_t begin = 0;   // of the blocks around the extent
    uint64_t cursor = 0;  // up to here pieces have been begun
    uint64_t end = 0;
    uint64_t piece_bytes = 0;
    int open_pieces = 0;
    Place place = Place::unused;
    bool waited_for = false;  // a demand read
    bool dropped = false;
    std::optional<ReadFailure> failure;
    int previous = kNone;
    int next = kNone;
  };
  struct List {
    int first = kNone;
    int last = kNone;
  };
  struct Piece {
    int request = kNone;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    int copy = 0;
    uint32_t tried = 0;  // copies that were given up, as bits
    int repeats = 0;     // since it last came forward
    bool delayed = false;
    Time not_before;
  };

  Request& request(int index) { return requests_[static_cast<size_t>(index)]; }
  List& list(Place place) {
    return place == Place::demand ? demand_ : place == Place::background ? background_ : finished_;
  }
  void move_to(int index, Place place);

  // Everything that can be done without waiting.
  void advance();
  void begin_pieces();
  void issue(int slot);
  void issue_delayed(Time now);
  void handle(const RawDone& done);
  void repeat_later(int slot, Time when);
  void give_up_copy(int slot, uint64_t offset, const std::string& problem, Time when);
  void close_piece(int slot, Time when);
  void finish(int index, Time when);
  void begin_demand(Time now) {
    if (demand_outstanding_++ == 0) demand_since_ = now;
  }

  std::unique_ptr<RawReader> raw_;
  const IoMode mode_;
  FileCopies copies_;
  const uint64_t piece_bytes_;
  const int depth_;
  const int background_depth_;
  const std::string refused_;

  std::vector<Request> requests_;  // grows to the most that were ever outstanding at once
  std::vector<int> unused_;
  List demand_, background_, finished_;
  std::vector<Piece> pieces_;  // one per slot
  std::vector<int> free_slots_;
  int delayed_ = 0;
  size_t outstanding_ = 0;
  size_t demand_outstanding_ = 0;
  Time demand_since_;
  ReaderCounters counters_;
};

std::string PlannedReader::description() const {
  std::string text = mode_ == IoMode::uring_direct ? "io_uring" : "pread";
  text += mode_ == IoMode::threads_buffered ? ", page cache" : ", O_DIRECT";
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const std::string size = piece_bytes_ % kMiB == 0 ? fmt::format("{} MiB", piece_bytes_ / kMiB)
                                                    : format_size(piece_bytes_);
  text += fmt::format(", {} pieces, {} in flight", size, depth_);
  if (const std::string notes = raw_->notes(); !notes.empty()) text += ", " + notes;
  if (!refused_.empty()) text += " (" + refused_ + ")";
  return text;
}

void PlannedReader::move_to(int index, Place place) {
  Request& moved = request(index);
  if (moved.place == Place::demand || moved.place == Place::background ||
      moved.place == Place::finished) {
    List& from = list(moved.place);
    (moved.previous == kNone ? from.first : request(moved.previous).next) = moved.next;
    (moved.next == kNone ? from.last : request(moved.next).previous) = moved.previous;
  }
  moved.place = place;
  moved.previous = moved.next = kNone;
  if (place == Place::unused) {
    unused_.push_back(index);
  } else if (place != Place::reading) {
    List& to = list(place);
    moved.previous = to.last;
    (to.last == kNone ? to.first : request(to.last).next) = index;
    to.last = index;
  }
}

void PlannedReader::start(Ticket ticket, const Extent& extent, std::byte* into,
                          ReadPriority priority) {
  assert(reinterpret_cast<uintptr_t>(into) % kBlock == 0);
  // What has landed by now must not count as waited for until the next call.
  advance();
  if (unused_.empty()) {
    unused_.reserve(requests_.size() + 1);
    requests_.emplace_back();
    unused_.push_back(static_cast<int>(requests_.size()) - 1);
  }
  const int index = unused_.back();
  unused_.pop_back();
  Request& added = request(index);
  added = Request{};
  added.ticket = ticket;
  added.extent = extent;
  added.into = into;
  added.begin = added.cursor = round_down(extent.offset);
  added.end = extent.bytes == 0 ? added.begin : round_up(extent.offset + extent.bytes);
  // Pieces of equal length, none of them tiny.
  const uint64_t bytes = added.end - added.begin;
  const uint64_t count = std::max<uint64_t>(1, (bytes + piece_bytes_ - 1) / piece_bytes_);
  added.piece_bytes = round_up((bytes + count - 1) / count);
  added.waited_for = priority == ReadPriority::demand;
  ++outstanding_;
  if (bytes == 0) {
    move_to(index, Place::finished);
    return;
  }
  if (added.waited_for) begin_demand(ReadClock::now());
  move_to(index, added.waited_for ? Place::demand : Place::background);
  advance();
}

void PlannedReader::promote(Ticket ticket) {
  advance();
  for (size_t i = 0; i < requests_.size(); ++i) {
    Request& found = requests_[i];
    if (found.ticket != ticket || found.place == Place::unused) continue;
    if (found.place == Place::finished || found.waited_for) return;
    found.waited_for = true;
    begin_demand(ReadClock::now());
    if (found.place == Place::background) move_to(static_cast<int>(i), Place::demand);
    advance();
    return;
  }
}

void PlannedReader::drop_background() {
  for (int index = background_.first; index != kNone;) {
    const int following = request(index).next;
    if (request(index).cursor == request(index).begin) {
      request(index).dropped = true;
      move_to(index, Place::finished);
    }
    index = following;
  }
}

std::optional<ExtentReader::Finished> PlannedReader::next(bool wait) {
  advance();
  while (finished_.first == kNone) {
    if (!wait || outstanding_ == 0) return std::nullopt;
    ReadClock::duration patience = std::chrono::hours(1);
    if (delayed_ > 0) {
      const Time now = ReadClock::now();
      for (const Piece& piece : pieces_) {
        if (piece.delayed) patience = std::min(patience, piece.not_before - now);
      }
    }
    if (const auto done = raw_->collect(std::max(patience, ReadClock::duration::zero()))) {
      handle(*done);
    }
    advance();
  }
  const int index = finished_.first;
  Request& over = request(index);
  Finished result{over.ticket, std::move(over.failure), over.dropped};
  over.failure.reset();
  move_to(index, Place::unused);
  --outstanding_;
  return result;
}

ReaderCounters PlannedReader::counters() const {
  ReaderCounters now = counters_;
  if (demand_outstanding_ > 0) {
    now.demand_seconds += std::chrono::duration<double>(ReadClock::now() - demand_since_).count();
  }
  return now;
}

void PlannedReader::advance() {
  while (const auto done = raw_->collect(ReadClock::duration::zero())) handle(*done);
  if (delayed_ > 0) issue_delayed(ReadClock::now());
  begin_pieces();
  raw_->flush();
}

void PlannedReader::begin_pieces() {
  while (!free_slots_.empty()) {
    int index = demand_.first;
    if (index == kNone) {
      // Background reads fill up what demand reads leave of the disk's queue, and no more.
      if (depth_ - static_cast<int>(free_slots_.size()) >= background_depth_) return;
      index = background_.first;
    }
    if (index == kNone) return;
    Request& from = request(index);
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    Piece& piece = pieces_[static_cast<size_t>(slot)];
    piece = Piece{};
    piece.request = index;
    piece.offset = from.cursor;
    piece.bytes = std::min(from.piece_bytes, from.end - from.cursor);
    from.cursor += piece.bytes;
    ++from.open_pieces;
    if (from.cursor == from.end) move_to(index, Place::reading);
    issue(slot);
  }
}

void PlannedReader::issue(int slot) {
  Piece& piece = pieces_[static_cast<size_t>(slot)];
  const Request& from = request(piece.request);
  piece.copy = copies_.choose(from.extent.file, piece.tried, piece.bytes);
  copies_.began(piece.copy, piece.bytes, ReadClock::now());
  ++counters_.reads;
  raw_->submit({slot, copies_.raw_file(from.extent.file, piece.copy), piece.offset, piece.bytes,
                from.into + (piece.offset - from.begin)});
}

void PlannedReader::issue_delayed(Time now) {
  for (size_t slot = 0; slot < pieces_.size(); ++slot) {
    Piece& piece = pieces_[slot];
    if (!piece.delayed || piece.not_before > now) continue;
    piece.delayed = false;
    --delayed_;
    issue(static_cast<int>(slot));
  }
}

void PlannedReader::handle(const RawDone& done) {
  Piece& piece = pieces_[static_cast<size_t>(done.slot)];
  const Request& from = request(piece.request);
  const uint64_t got = done.result > 0 ? static_cast<uint64_t>(done.result) : 0;
  copies_.ended(piece.copy, piece.bytes, got, done.time);
  counters_.device_bytes += got;
  if (done.result < 0) {
    const int problem = static_cast<int>(-done.result);
    if (may_pass(problem) && piece.repeats < kMostRepeats) {
      repeat_later(done.slot, done.time);
    } else {
      give_up_copy(done.slot, std::max(piece.offset, from.extent.offset), std::strerror(problem),
                   done.time);
    }
    return;
  }
  // The last block of an extent may lie across the end of the file; only its bytes are wanted.
  const uint64_t wanted_end =
      std::min(piece.offset + piece.bytes, from.extent.offset + from.extent.bytes);
  const bool whole = piece.offset + got >= wanted_end;
  // Reading goes on at a block: that of which only a part came is read again.
  const uint64_t forward = whole ? wanted_end - piece.offset : round_down(got);
  const uint64_t useful_begin = std::max(piece.offset, from.extent.offset);
  const uint64_t useful_end = piece.offset + forward;
  (from.waited_for ? counters_.demand_bytes : counters_.background_bytes) +=
      useful_end > useful_begin ? useful_end - useful_begin : 0;
  if (whole) {
    close_piece(done.slot, done.time);
    return;
  }
  piece.offset += forward;
  piece.bytes -= forward;
  if (forward > 0) {
    piece.repeats = 0;
    ++counters_.retries;
    issue(done.slot);
  } else if (piece.repeats < kMostRepeats) {
    repeat_later(done.slot, done.time);
  } else {
    give_up_copy(done.slot, std::max(piece.offset + got, from.extent.offset), "the file ends here",
                 done.time);
  }
}

void PlannedReader::repeat_later(int slot, Time when) {
  Piece& piece = pieces_[static_cast<size_t>(slot)];
  piece.not_before = when + kBackOff[piece.repeats++];
  piece.delayed = true;
  ++delayed_;
  ++counters_.retries;
}

void PlannedReader::give_up_copy(int slot, uint64_t offset, const std::string& problem, Time when) {
  Piece& piece = pieces_[static_cast<size_t>(slot)];
  Request& from = request(piece.request);
  piece.tried |= uint32_t{1} << piece.copy;
  copies_.mark_failed(from.extent.file, piece.copy);
  if (copies_.choose(from.extent.file, piece.tried, piece.bytes) >= 0) {
    piece.repeats = 0;
    ++counters_.retries;
    issue(slot);
    return;
  }
  if (!from.failure || offset < from.failure->offset) {
    from.failure = ReadFailure{copies_.first_path(from.extent.file), offset, problem};
  }
  // The rest need not be read; what has begun must end first, as it is still written to memory.
  if (from.cursor != from.end) {
    from.cursor = from.end;
    move_to(piece.request, Place::reading);
  }
  close_piece(slot, when);
}

void PlannedReader::close_piece(int slot, Time when) {
  const int index = std::exchange(pieces_[static_cast<size_t>(slot)].request, kNone);
  free_slots_.push_back(slot);
  Request& from = request(index);
  if (--from.open_pieces == 0 && from.cursor == from.end) finish(index, when);
}

void PlannedReader::finish(int index, Time when) {
  move_to(index, Place::finished);
  if (!request(index).waited_for || --demand_outstanding_ > 0) return;
  counters_.demand_seconds +=
      std::max(0.0, std::chrono::duration<double>(when - demand_since_).count());
}

}  // namespace

std::unique_ptr<ExtentReader> make_planned_reader(PlannedReaderParts parts) {
  return std::make_unique<PlannedReader>(std::move(parts));
}

}  // namespace fathom
