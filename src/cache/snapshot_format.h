// The records of a snapshot file (see snapshot.h), as bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/hash.h"
#include "cache/snapshot.h"

namespace fathom {

static_assert(std::endian::native == std::endian::little, "snapshots are written as they lie");

constexpr uint32_t kSnapshotVersion = 1;
constexpr char kFileMagic[] = "FATHOMKV";
constexpr char kSaveMagic[] = "FKV-SAVE";
constexpr char kCommitMagic[] = "FKV-DONE";
constexpr size_t kMagicBytes = 8;
constexpr uint64_t kSaveAlignment = 128;  // of a save's first byte; a commit ends there

struct FileHeader {
  char magic[kMagicBytes] = {};
  uint32_t version = 0;
  uint32_t header_bytes = 0;
  char identity[64] = {};
  uint32_t kv_format = 0;  // KvFormat
  uint32_t page_positions = 0;
  uint32_t layers = 0;
  uint32_t main_layers = 0;
  uint64_t latent = 0;
  uint64_t rope = 0;
  uint64_t row_bytes = 0;
  uint64_t unused[16] = {};
  uint64_t checksum = 0;  // of all before it, in every record
};
static_assert(sizeof(FileHeader) == 256 && sizeof(FileHeader) % kSaveAlignment == 0);

struct SaveHeader {
  char magic[kMagicBytes] = {};
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t previous = 0;
  uint64_t kept_rows = 0;
  uint64_t rows = 0;
  uint64_t kept_ids = 0;
  uint64_t ids = 0;
  uint64_t mtp_length = 0;
  uint64_t note_bytes = 0;
  uint64_t payload_bytes = 0;  // with the zeros after it
  uint64_t unused[4] = {};
  uint64_t checksum = 0;
};
static_assert(sizeof(SaveHeader) == 128);

struct Commit {
  char magic[kMagicBytes] = {};
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t payload_checksum = 0;
  uint64_t unused[3] = {};
  uint64_t checksum = 0;
};
static_assert(sizeof(Commit) == 64);

template <typename Record>
uint64_t record_checksum(const Record& record) {
  static_assert(std::has_unique_object_representations_v<Record>, "no gaps in a record");
  return hash64(std::as_bytes(std::span(&record, 1)).first(sizeof(Record) - sizeof(uint64_t)));
}

template <typename Record>
bool is_intact(const Record& record, const char* magic) {
  return std::memcmp(record.magic, magic, kMagicBytes) == 0 &&
         record.checksum == record_checksum(record);
}

// Nothing was ever written there: the file grew, and the power failed.
template <typename Record>
bool is_blank(const Record& record) {
  static const Record kBlank{};
  return std::memcmp(&record, &kBlank, sizeof(Record)) == 0;
}

FileHeader file_header(const SnapshotTag& tag);
// Error(input) naming the offset of what does not fit.
void check_file_header(const FileHeader& header, const SnapshotTag& tag, const std::string& path);

// Bytes of a save's payload, up to its commit.
uint64_t save_payload_bytes(uint64_t row_bytes, const SaveHeader& save);

// Calls f(layer, position, count) for the rows first .. end in the order of a payload: runs of
// positions within one page, which lie together in memory.
template <typename F>
void for_each_run(int64_t layers, int64_t first, int64_t end, const F& f) {
  while (first < end) {
    const int64_t page_end = (first / kPagePositions + 1) * kPagePositions;
    const int64_t count = (page_end < end ? page_end : end) - first;
    for (int64_t layer = 0; layer < layers; ++layer) f(layer, first, count);
    first += count;
  }
}

}  // namespace fathom
