// Random checkpoints of any size in the released layout, for tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>

#include "base/cancel.h"

namespace fathom {

struct SynthOptions {
  std::string config_path;
  std::string out_folder;
  uint64_t seed = 0;
  int shards = 1;            // about even in bytes
  std::string shard_table;   // instead: a file with the tensors per shard (synth_shard_table.h)
  bool skeleton = false;     // true headers, holes in place of the data
  bool live = false;         // a skeleton in which routing works (synth_skeleton.h)
  int64_t live_rows = 4096;  // token ids with embedding and head in a live skeleton, from 0 on; a
                             // quarter as many at the vocabulary's end, bos and eos have them too
  const CancelToken* cancel = nullptr;  // looked at every few MiB
};

struct SynthResult {
  int64_t files = 0;
  uint64_t bytes = 0;          // of all files, holes included
  uint64_t written_bytes = 0;  // without the holes
};

// Writes config.json, generation_config.json, shards and index, tensors in the order and formats of
// the released files (FP8 + F32 scales, BF16, F32 router bias), the MTP layer where the config has
// one. Magnitudes keep hidden states finite through any number of layers, routers choose all
// experts about equally. The same seed gives the same bytes whatever the number of threads or
// shards. Streams: memory stays small. Nothing is left behind when it fails or is interrupted. A
// folder that already holds a checkpoint, or more shards than tensors, is an Error(usage); a
// skeleton on a file system without holes is an Error(io).
SynthResult synthesise_checkpoint(const SynthOptions& options, int threads);

}  // namespace fathom
