// Everything that a folder's headers say, however broken the folder is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/weight_index.h"

namespace fathom {

struct ScannedShard {
  std::string name;
  uint64_t file_bytes = 0;
  uint64_t header_bytes = 0;   // N; the data begin at 8 + N
  uint64_t payload_bytes = 0;  // of the tensors that count
  size_t tensors = 0;
  bool readable = false;  // its header could be read
  std::string problem;    // what is wrong with it; "" where all is well
};

// What Checkpoint::open refuses is listed here instead, and the rest is kept. Both read with the
// same parsers and choose files and duplicates by the same rules.
struct HeaderScan {
  std::string folder;  // after following refs/main
  std::optional<WeightIndex> index;
  std::vector<ScannedShard> shards;
  std::vector<TensorInfo> tensors;      // by shard, in each by offset
  std::vector<std::string> not_listed;  // *.safetensors files that the index does not name
  std::vector<std::string> problems;

  uint64_t payload_bytes() const;
  uint64_t file_bytes() const;  // of all shards
};

// Error(io) where there is no such folder; everything else is a problem in the result.
HeaderScan scan_headers(const std::string& folder);

// Number of values in a tensor.
uint64_t value_count(const TensorInfo& tensor);

}  // namespace fathom
