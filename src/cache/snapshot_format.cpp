#include "cache/snapshot_format.h"

#include <cstddef>

#include "base/error.h"

namespace fathom {
namespace {

const char* format_name(uint32_t format) {
  switch (static_cast<KvFormat>(format)) {
    case KvFormat::f32:
      return "f32";
    case KvFormat::bf16:
      return "bf16";
    case KvFormat::int8:
      return "int8";
  }
  return "unknown";
}

}  // namespace

FileHeader file_header(const SnapshotTag& tag) {
  FileHeader header;
  std::memcpy(header.magic, kFileMagic, kMagicBytes);
  header.version = kSnapshotVersion;
  header.header_bytes = sizeof(FileHeader);
  if (tag.identity.size() > sizeof(header.identity)) {
    fail_usage("a model's identity of {} characters is too long", tag.identity.size());
  }
  std::memcpy(header.identity, tag.identity.data(), tag.identity.size());
  header.kv_format = static_cast<uint32_t>(tag.layout.row.format);
  header.page_positions = static_cast<uint32_t>(kPagePositions);
  header.layers = static_cast<uint32_t>(tag.layout.layers);
  header.main_layers = static_cast<uint32_t>(tag.main_layers);
  header.latent = static_cast<uint64_t>(tag.layout.row.latent);
  header.rope = static_cast<uint64_t>(tag.layout.row.rope);
  header.row_bytes = static_cast<uint64_t>(tag.layout.row.bytes());
  header.checksum = record_checksum(header);
  return header;
}

void check_file_header(const FileHeader& header, const SnapshotTag& tag, const std::string& path) {
  const auto refuse = [&path](size_t offset, const std::string& why) {
    fail_input("{}: offset {}: {}", path, offset, why);
  };
  if (std::memcmp(header.magic, kFileMagic, kMagicBytes) != 0) {
    refuse(0, "this is no snapshot of a key-value cache");
  }
  if (header.version != kSnapshotVersion) {
    refuse(offsetof(FileHeader, version),
           fmt::format("the snapshot has format version {}, this program reads version {}",
                       header.version, kSnapshotVersion));
  }
  if (header.checksum != record_checksum(header)) {
    refuse(offsetof(FileHeader, checksum), "the header does not fit its checksum");
  }
  const FileHeader ours = file_header(tag);
  if (std::memcmp(header.identity, ours.identity, sizeof(ours.identity)) != 0) {
    const std::string theirs(header.identity, strnlen(header.identity, sizeof(header.identity)));
    refuse(offsetof(FileHeader, identity),
           fmt::format("the snapshot belongs to another model ({}; this one is {})", theirs,
                       tag.identity));
  }
  if (header.kv_format != ours.kv_format) {
    refuse(offsetof(FileHeader, kv_format),
           fmt::format("the snapshot's key-value cache is {}, here it is {}",
                       format_name(header.kv_format), format_name(ours.kv_format)));
  }
  if (header.header_bytes != ours.header_bytes || header.page_positions != ours.page_positions ||
      header.main_layers != ours.main_layers || header.latent != ours.latent ||
      header.rope != ours.rope || header.row_bytes != ours.row_bytes ||
      header.layers < header.main_layers || header.layers > header.main_layers + 1) {
    refuse(offsetof(FileHeader, page_positions),
           fmt::format("the snapshot's cache has {} layers of {} + {} values in pages of {}, here "
                       "{} of {} + {} in pages of {}",
                       header.main_layers, header.latent, header.rope, header.page_positions,
                       ours.main_layers, ours.latent, ours.rope, ours.page_positions));
  }
}

uint64_t save_payload_bytes(uint64_t row_bytes, const SaveHeader& save) {
  const uint64_t used = (save.rows - save.kept_rows) * row_bytes +
                        (save.ids - save.kept_ids) * sizeof(int32_t) + save.note_bytes;
  // The commit after it ends where the next save begins.
  const uint64_t whole = (used + sizeof(Commit) + kSaveAlignment - 1) / kSaveAlignment;
  return whole * kSaveAlignment - sizeof(Commit);
}

}  // namespace fathom
