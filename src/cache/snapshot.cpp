#include "cache/snapshot.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/error.h"
#include "cache/snapshot_format.h"
#include "cache/snapshot_read.h"

namespace fathom {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;   // written at once
constexpr uint64_t kFlushBytes = 32 << 20;  // left to the page cache at the most
// A small file may consist of old contents to a large part.
constexpr uint64_t kWasteAllowed = 1 << 20;

size_t same_ids(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

// Writes in pieces, sums up a checksum, and keeps what is written from filling the page cache.
class PayloadWriter {
 public:
  PayloadWriter(LockedFile& file, uint64_t offset) : file_(file), offset_(offset) {
    piece_.reserve(kPieceBytes);
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min<size_t>(bytes.size(), kPieceBytes - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (piece_.size() == kPieceBytes) flush();
    }
  }
  uint64_t finish() {
    flush();
    return hasher_.value();
  }

 private:
  void flush() {
    hasher_.add(piece_);
    file_.write_at(offset_, piece_);
    offset_ += piece_.size();
    unflushed_ += piece_.size();
    piece_.clear();
    if (unflushed_ < kFlushBytes) return;
    file_.sync();
    file_.drop_cached(offset_ - unflushed_, unflushed_);
    unflushed_ = 0;
  }

  LockedFile& file_;
  uint64_t offset_;
  std::vector<std::byte> piece_;
  uint64_t unflushed_ = 0;
  Hasher hasher_;
};

template <typename Record>
void seal(Record* record, const char* magic) {
  std::memcpy(record->magic, magic, kMagicBytes);
  record->checksum = record_checksum(*record);
}

template <typename Record>
std::span<const std::byte> bytes_of(const Record& record) {
  return std::as_bytes(std::span(&record, 1));
}

}  // namespace

struct SnapshotFile::Save {
  SaveHeader header;
  uint64_t bytes() const { return sizeof(SaveHeader) + header.payload_bytes + sizeof(Commit); }
};

SnapshotFile::SnapshotFile(const std::string& path, SnapshotTag tag)
    : file_(path), tag_(std::move(tag)) {}

std::optional<LoadedSnapshot> SnapshotFile::load(KvPagePool& pool) {
  ready_ = true;
  SnapshotSource source;
  source.path = file_.path();
  source.size = file_.size();
  if (source.size == 0) return std::nullopt;
  ready_ = false;  // a file that is refused must not be written to
  source.read = [this](uint64_t offset, std::span<std::byte> into) { file_.read_at(offset, into); };
  source.drop = [this](uint64_t offset, uint64_t bytes) { file_.drop_cached(offset, bytes); };
  SnapshotRead read = read_snapshot(source, tag_, pool);
  ready_ = true;
  anew_ = read.other_layers;
  end_ = read.end;
  number_ = read.saves;
  previous_ = read.previous;
  rows_ = read.loaded.sequence.length();
  ids_ = read.loaded.ids;
  mtp_length_ = read.loaded.mtp_length;
  note_ = read.loaded.note;
  return std::move(read.loaded);
}

void SnapshotFile::start_anew() {
  ready_ = true;
  anew_ = true;
}

SnapshotFile::Save SnapshotFile::plan(const SnapshotContents& contents, bool whole) const {
  Save save;
  SaveHeader& header = save.header;
  header.number = whole ? 0 : number_;
  header.offset = whole ? sizeof(FileHeader) : end_;
  header.previous = whole ? file_header(tag_).checksum : previous_;
  header.rows = static_cast<uint64_t>(contents.rows);
  header.ids = contents.ids.size();
  header.mtp_length =
      static_cast<uint64_t>(std::clamp<int64_t>(contents.mtp_length, 0, contents.rows));
  header.note_bytes = contents.note.size();
  if (!whole) {
    const size_t same = same_ids(ids_, contents.ids);
    header.kept_ids = same;
    header.kept_rows =
        std::min({same, static_cast<size_t>(rows_), static_cast<size_t>(header.rows)});
    // A position of the MTP layer depends on the token after it, and is filled later than the
    // others.
    const size_t mtp_held = std::min(static_cast<size_t>(mtp_length_), same > 0 ? same - 1 : 0);
    if (header.mtp_length > mtp_held)
      header.kept_rows = std::min<uint64_t>(header.kept_rows, mtp_held);
  }
  header.payload_bytes = save_payload_bytes(
      static_cast<uint64_t>(tag_.layout.layers * tag_.layout.row.bytes()), header);
  seal(&header, kSaveMagic);
  return save;
}

uint64_t SnapshotFile::save(const SnapshotContents& contents) {
  assert(ready_);
  assert(contents.rows <= contents.sequence->length());
  assert(static_cast<size_t>(contents.rows) <= contents.ids.size());
  if (anew_) return rewrite(contents);
  const Save next = plan(contents, false);
  const SaveHeader& header = next.header;
  if (header.kept_rows == header.rows && header.rows == static_cast<uint64_t>(rows_) &&
      header.kept_ids == header.ids && header.ids == ids_.size() && contents.note == note_ &&
      header.mtp_length == static_cast<uint64_t>(mtp_length_)) {
    return 0;
  }
  const uint64_t of_use = sizeof(FileHeader) + plan(contents, true).bytes();
  if (end_ + next.bytes() > 2 * of_use + kWasteAllowed) {
    try {
      return rewrite(contents);
    } catch (const Error&) {
      // No room for a second file, perhaps: a few more bytes in this one may still do.
    }
  }
  return append(contents, next);
}

uint64_t SnapshotFile::append(const SnapshotContents& contents, const Save& save) {
  // What an interrupted or failed save has left would look like damage behind this one.
  if (file_.size() != end_) file_.truncate(end_);
  try {
    const uint64_t checksum = write_save(contents, save);
    file_.sync();
    remember(contents, save, checksum);
  } catch (...) {
    try {
      file_.truncate(end_);
    } catch (const Error&) {
      // The next save tries again before it writes.
    }
    throw;
  }
  return save.bytes();
}

uint64_t SnapshotFile::rewrite(const SnapshotContents& contents) {
  const Save save = plan(contents, true);
  file_.begin_replacement();
  try {
    file_.write_at(0, bytes_of(file_header(tag_)));
    const uint64_t checksum = write_save(contents, save);
    file_.commit_replacement();
    remember(contents, save, checksum);
  } catch (...) {
    file_.discard_replacement();
    throw;
  }
  anew_ = false;
  return end_;
}

void SnapshotFile::remember(const SnapshotContents& contents, const Save& save, uint64_t checksum) {
  file_.drop_cached(save.header.offset, save.bytes());
  end_ = save.header.offset + save.bytes();
  number_ = save.header.number + 1;
  previous_ = checksum;
  rows_ = contents.rows;
  ids_.assign(contents.ids.begin(), contents.ids.end());
  mtp_length_ = static_cast<int64_t>(save.header.mtp_length);
  note_ = contents.note;
}

uint64_t SnapshotFile::write_save(const SnapshotContents& contents, const Save& save) {
  const SaveHeader& header = save.header;
  file_.write_at(header.offset, bytes_of(header));
  const uint64_t payload = header.offset + sizeof(SaveHeader);
  PayloadWriter writer(file_, payload);
  const auto row_bytes = static_cast<size_t>(tag_.layout.row.bytes());
  for_each_run(tag_.layout.layers, static_cast<int64_t>(header.kept_rows), contents.rows,
               [&](int64_t layer, int64_t position, int64_t count) {
                 writer.write({contents.sequence->row(layer, position),
                               static_cast<size_t>(count) * row_bytes});
               });
  writer.write(std::as_bytes(contents.ids.subspan(header.kept_ids)));
  writer.write(std::as_bytes(std::span(contents.note)));
  const uint64_t used =
      (header.rows - header.kept_rows) * row_bytes * static_cast<uint64_t>(tag_.layout.layers) +
      (header.ids - header.kept_ids) * sizeof(int32_t) + header.note_bytes;
  const std::byte zeros[kSaveAlignment] = {};
  writer.write(std::span(zeros).first(header.payload_bytes - used));

  Commit commit;
  commit.number = header.number;
  commit.offset = header.offset;
  commit.payload_checksum = writer.finish();
  seal(&commit, kCommitMagic);
  file_.sync();  // the commit says that all this is on the device
  file_.write_at(payload + header.payload_bytes, bytes_of(commit));
  return commit.checksum;
}

}  // namespace fathom
