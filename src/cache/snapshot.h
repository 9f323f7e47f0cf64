// A sequence's key-value cache on disk, with its ids and a note of the caller's: saved often, in
// little pieces, and whole after a kill or a power failure at any moment.
//
// The file (little-endian; format version 1) is a header and a list of saves, each of which adds to
// what those before it hold:
//
//   file header, 256 bytes   magic, version, the model's identity, layout and precision; checksum
//   save header, 128 bytes   number, its own offset, checksum of the commit before; kept rows and
//                            ids (what follows them is forgotten), rows and ids afterwards, rows of
//                            the MTP layer, sizes; checksum
//   payload                  rows kept .. rows, page by page: [layer][position] as in memory; ids
//                            (int32); the note; zeros up to the commit
//   commit, 64 bytes         number, offset of the save header, checksum of the payload; checksum
//
// Headers and commits never cross a sector. The commit is written when all before it is on the
// device, and then flushed too: a save without commit was interrupted and is cut off; anything else
// that does not fit its checksum is damage, and the file is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/locked_file.h"
#include "cache/kv_cache.h"

namespace fathom {

// What a snapshot must fit to be of use.
struct SnapshotTag {
  std::string identity;  // of the model, at most 64 characters
  KvCacheLayout layout;
  int64_t main_layers = 0;  // of layout.layers; what follows them is the MTP layer
  int64_t most_rows = 0;    // a longer snapshot is refused
};

struct SnapshotContents {
  const KvSequence* sequence = nullptr;
  int64_t rows = 0;              // of it, from position 0 on
  std::span<const int32_t> ids;  // of the rows, and any that follow
  int64_t mtp_length = 0;        // positions that the MTP layer has cached (CacheState)
  std::string_view note;
};

struct LoadedSnapshot {
  KvSequence sequence;
  std::vector<int32_t> ids;  // at least as many as rows
  int64_t mtp_length = 0;
  std::string note;
  uint64_t dropped_bytes = 0;  // of an interrupted save at the file's end
};

// Reads a snapshot that somebody else may be writing. nullopt where the file is empty; Error(input)
// naming offset and reason where it is damaged or of another model, layout or precision.
std::optional<LoadedSnapshot> load_snapshot(const std::string& path, const SnapshotTag& tag,
                                            KvPagePool& pool);

// A snapshot that grows with its sequence. Nobody else can open the file meanwhile.
class SnapshotFile {
 public:
  SnapshotFile(const std::string& path, SnapshotTag tag);

  // Like load_snapshot(); an interrupted save is cut off. Must be called before the first save().
  std::optional<LoadedSnapshot> load(KvPagePool& pool);
  // Instead of load(): the first save() replaces the whole file, whatever it holds.
  void start_anew();

  // Writes what the file does not hold yet and returns the number of bytes written. Rows count as
  // held where they follow the same ids. The whole file is written anew where more than half of it
  // would be of no use. Error(io) leaves the last state on disk; the next save() tries again.
  uint64_t save(const SnapshotContents& contents);

  const std::string& path() const { return file_.path(); }
  uint64_t bytes() const { return end_; }

 private:
  struct Save;
  Save plan(const SnapshotContents& contents, bool whole) const;
  uint64_t append(const SnapshotContents& contents, const Save& save);
  uint64_t rewrite(const SnapshotContents& contents);
  // Returns the commit's checksum.
  uint64_t write_save(const SnapshotContents& contents, const Save& save);
  void remember(const SnapshotContents& contents, const Save& save, uint64_t checksum);

  LockedFile file_;
  SnapshotTag tag_;
  bool ready_ = false;     // load() or start_anew() was called
  bool anew_ = true;       // the next save writes the whole file
  uint64_t end_ = 0;       // of the last complete save
  uint64_t number_ = 0;    // of the next save
  uint64_t previous_ = 0;  // checksum of the last commit, or of the file header
  // What the file holds.
  int64_t rows_ = 0;
  std::vector<int32_t> ids_;
  int64_t mtp_length_ = 0;
  std::string note_;
};

}  // namespace fathom
