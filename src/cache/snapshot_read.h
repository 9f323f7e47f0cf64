// Reading a snapshot file: every save in order, every checksum compared before anything is used.
#pragma once

#include <functional>

#include "base/file.h"
#include "cache/snapshot_format.h"

namespace fathom {

struct SnapshotSource {
  std::string path;
  uint64_t size = 0;
  std::function<void(uint64_t offset, std::span<std::byte> into)> read;
  std::function<void(uint64_t offset, uint64_t bytes)> drop;  // from the page cache
};

struct SnapshotRead {
  LoadedSnapshot loaded;
  uint64_t end = 0;           // of the last complete save
  uint64_t saves = 0;         // complete ones
  uint64_t previous = 0;      // checksum of the last commit
  bool other_layers = false;  // with an MTP layer, or without one, unlike this model
};

// The file is not empty. Errors as for load_snapshot().
SnapshotRead read_snapshot(const SnapshotSource& source, const SnapshotTag& tag, KvPagePool& pool);

}  // namespace fathom
