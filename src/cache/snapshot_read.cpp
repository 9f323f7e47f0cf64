#include "cache/snapshot_read.h"

#include <algorithm>

#include "base/error.h"

namespace fathom {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;  // read at once
// Beyond these nothing is a size, so that sums cannot overflow.
constexpr uint64_t kMostRows = uint64_t{1} << 32;
constexpr uint64_t kMostNote = uint64_t{1} << 30;

// A payload in pieces, which also go into the checksum and do not stay in the page cache.
class Payload {
 public:
  Payload(const SnapshotSource& source, uint64_t offset, uint64_t bytes)
      : source_(source), offset_(offset), left_(bytes), piece_(std::min(bytes, kPieceBytes)) {}

  // `into` may be null: the bytes are passed over.
  void read(std::byte* into, uint64_t bytes) {
    while (bytes > 0) {
      if (at_ == filled_) fill();
      const uint64_t count = std::min(bytes, filled_ - at_);
      if (into != nullptr) {
        std::memcpy(into, piece_.data() + at_, count);
        into += count;
      }
      at_ += count;
      bytes -= count;
    }
  }
  // Passes over the rest; the checksum of all.
  uint64_t finish() {
    read(nullptr, filled_ - at_ + left_);
    return hasher_.value();
  }

 private:
  void fill() {
    filled_ = std::min<uint64_t>(left_, piece_.size());
    source_.read(offset_, std::span(piece_).first(filled_));
    source_.drop(offset_, filled_);
    hasher_.add(std::span(piece_).first(filled_));
    offset_ += filled_;
    left_ -= filled_;
    at_ = 0;
  }

  const SnapshotSource& source_;
  uint64_t offset_;
  uint64_t left_;
  std::vector<std::byte> piece_;
  uint64_t filled_ = 0;
  uint64_t at_ = 0;
  Hasher hasher_;
};

class Reader {
 public:
  Reader(const SnapshotSource& source, const SnapshotTag& tag, KvPagePool& pool)
      : source_(source), tag_(tag), read_{{KvSequence(pool), {}, 0, {}, 0}, 0, 0, 0, false} {}

  SnapshotRead read_all() {
    const FileHeader header = read_header();
    read_.end = sizeof(FileHeader);
    read_.previous = header.checksum;
    read_.other_layers = layers_ != static_cast<uint64_t>(tag_.layout.layers);
    while (read_save()) {
    }
    read_.loaded.dropped_bytes = source_.size - read_.end;
    if (read_.saves == 0) refuse(read_.end, "it holds no complete save");
    const auto rows = static_cast<uint64_t>(read_.loaded.sequence.length());
    if (rows > read_.loaded.ids.size()) refuse(last_, "it has fewer ids than rows");
    return std::move(read_);
  }

 private:
  [[noreturn]] void refuse(uint64_t offset, const std::string& why) const {
    fail_input("{}: offset {}: {}", source_.path, offset, why);
  }

  template <typename Record>
  Record record_at(uint64_t offset) const {
    Record record;
    source_.read(offset, std::as_writable_bytes(std::span(&record, 1)));
    return record;
  }

  FileHeader read_header() {
    if (source_.size < sizeof(FileHeader)) {
      refuse(source_.size, "the file ends within its header");
    }
    const FileHeader header = record_at<FileHeader>(0);
    check_file_header(header, tag_, source_.path);
    layers_ = header.layers;
    row_bytes_ = header.row_bytes * header.layers;
    return header;
  }

  // False at the end: no more saves, or one that was interrupted.
  bool read_save() {
    const uint64_t offset = read_.end;
    if (source_.size - offset < sizeof(SaveHeader)) return false;
    const SaveHeader save = record_at<SaveHeader>(offset);
    if (is_blank(save)) {
      require_nothing_complete(offset);
      return false;
    }
    if (!is_intact(save, kSaveMagic)) refuse(offset, "a save's header does not fit its checksum");
    check(save, offset);

    const uint64_t payload = offset + sizeof(SaveHeader);
    const uint64_t commit_at = payload + save.payload_bytes;
    if (source_.size < commit_at + sizeof(Commit)) return false;
    const Commit commit = record_at<Commit>(commit_at);
    if (is_blank(commit)) {
      require_nothing_complete(commit_at);
      return false;
    }
    if (!is_intact(commit, kCommitMagic) || commit.number != save.number ||
        commit.offset != offset) {
      refuse(commit_at, "the end of a save does not fit its checksum");
    }
    if (read_payload(save, payload) != commit.payload_checksum) {
      refuse(payload,
             fmt::format("{} bytes of a save do not fit their checksum", save.payload_bytes));
    }
    last_ = offset;
    read_.previous = commit.checksum;
    read_.end = commit_at + sizeof(Commit);
    ++read_.saves;
    return true;
  }

  void check(const SaveHeader& save, uint64_t offset) const {
    const auto rows = static_cast<uint64_t>(read_.loaded.sequence.length());
    if (save.number != read_.saves || save.offset != offset || save.previous != read_.previous) {
      refuse(offset, "this save belongs elsewhere");
    }
    if (save.rows > kMostRows || save.ids > kMostRows || save.note_bytes > kMostNote ||
        save.kept_rows > std::min(rows, save.rows) || save.mtp_length > save.rows ||
        save.kept_ids > std::min<uint64_t>(read_.loaded.ids.size(), save.ids) ||
        save.payload_bytes != save_payload_bytes(row_bytes_, save)) {
      refuse(offset, "the sizes of a save contradict each other");
    }
    if (save.rows > static_cast<uint64_t>(tag_.most_rows)) {
      refuse(offset, fmt::format("{} tokens are cached in it, and the context has room for {}",
                                 save.rows, tag_.most_rows));
    }
  }

  uint64_t read_payload(const SaveHeader& save, uint64_t offset) {
    Payload payload(source_, offset, save.payload_bytes);
    KvSequence& sequence = read_.loaded.sequence;
    sequence.truncate(static_cast<int64_t>(save.kept_rows));
    const auto more = static_cast<int64_t>(save.rows - save.kept_rows);
    sequence.prepare(more);
    const auto row_bytes = static_cast<uint64_t>(tag_.layout.row.bytes());
    for_each_run(static_cast<int64_t>(layers_), sequence.length(), sequence.length() + more,
                 [&](int64_t layer, int64_t position, int64_t count) {
                   // The MTP layer of a file may be none of this model's.
                   std::byte* into =
                       layer < tag_.layout.layers ? sequence.row(layer, position) : nullptr;
                   payload.read(into, static_cast<uint64_t>(count) * row_bytes);
                 });
    sequence.commit(more);

    std::vector<int32_t>& ids = read_.loaded.ids;
    ids.resize(save.ids);
    payload.read(reinterpret_cast<std::byte*>(ids.data() + save.kept_ids),
                 (save.ids - save.kept_ids) * sizeof(int32_t));
    std::string& note = read_.loaded.note;
    note.resize(save.note_bytes);
    payload.read(reinterpret_cast<std::byte*>(note.data()), save.note_bytes);
    read_.loaded.mtp_length = read_.other_layers ? 0 : static_cast<int64_t>(save.mtp_length);
    return payload.finish();
  }

  // A record that is blank in the middle of a file was not interrupted: it was wiped out.
  void require_nothing_complete(uint64_t offset) const {
    std::vector<std::byte> piece(kPieceBytes);
    for (uint64_t at = offset; at + sizeof(Commit) <= source_.size; at += piece.size()) {
      const uint64_t count = std::min<uint64_t>(piece.size(), source_.size - at);
      source_.read(at, std::span(piece).first(count));
      source_.drop(at, count);
      for (uint64_t i = 0; i + sizeof(Commit) <= count; i += sizeof(Commit)) {
        Commit commit;
        std::memcpy(&commit, piece.data() + i, sizeof(Commit));
        if (is_intact(commit, kCommitMagic)) {
          refuse(offset, "a save's record is blank, and a complete save follows it");
        }
      }
    }
  }

  const SnapshotSource& source_;
  const SnapshotTag& tag_;
  uint64_t layers_ = 0;     // in the file
  uint64_t row_bytes_ = 0;  // of one position, all layers, in the file
  uint64_t last_ = 0;       // offset of the last save
  SnapshotRead read_;
};

}  // namespace

SnapshotRead read_snapshot(const SnapshotSource& source, const SnapshotTag& tag, KvPagePool& pool) {
  return Reader(source, tag, pool).read_all();
}

std::optional<LoadedSnapshot> load_snapshot(const std::string& path, const SnapshotTag& tag,
                                            KvPagePool& pool) {
  const File file(path);
  if (file.size() == 0) return std::nullopt;
  SnapshotSource source;
  source.path = path;
  source.size = file.size();
  source.read = [&file](uint64_t offset, std::span<std::byte> into) { file.read_at(offset, into); };
  source.drop = [&file](uint64_t offset, uint64_t bytes) { file.drop_cached(offset, bytes); };
  return read_snapshot(source, tag, pool).loaded;
}

}  // namespace fathom
