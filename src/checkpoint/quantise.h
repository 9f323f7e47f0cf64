// A copy of a checkpoint with its large matrices in fewer bits (docs/quantize.md).
#pragma once

#include <cstdint>
#include <string>

#include "base/cancel.h"

namespace fathom {

struct QuantiseOptions {
  std::string folder;
  std::string out_folder;
  int bits = 4;      // 8, 4, 3 or 2
  uint64_t ram = 0;  // bytes that the process may take; 0: no limit of its own
  int threads = 1;
  const CancelToken* cancel = nullptr;
};

struct QuantiseResult {
  int64_t matrices = 0;        // made smaller
  uint64_t matrix_bytes = 0;   // of them, as they were, scales included
  uint64_t packed_bytes = 0;   // and as they are
  uint64_t bytes = 0;          // of all tensors now
  int64_t shards = 0;          // of the copy
  int64_t earlier_shards = 0;  // of them, those that an earlier call had written
};

// Of DeepseekV3ForCausalLM the routed experts, of other architectures the matrices of the layers
// (NAME_proj.weight); everything else is copied. Shard by shard: memory stays small, each shard
// appears whole or not at all, and config.json comes last. After an Error, an interrupt or a kill
// the same call goes on where it was. Error(usage) where the folder holds something else, where
// nothing is to be made smaller, or where `ram` does not do; Error(io) where the disk has too
// little room, before anything is written.
QuantiseResult quantise_checkpoint(const QuantiseOptions& options);

}  // namespace fathom
