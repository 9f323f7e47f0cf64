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
  int shards = 1;
  const CancelToken* cancel = nullptr;  // looked at every few MiB
};

// Writes config.json, generation_config.json, shards and index, tensors in the order and formats of
// the released files (FP8 + F32 scales, BF16, F32 router bias), the MTP layer where the config has
// one. Magnitudes keep hidden states finite through any number of layers, routers choose all
// experts about equally. The same seed gives the same bytes whatever the number of threads or
// shards. Streams: memory stays small. Nothing is left behind when it fails or is interrupted. A
// folder that already holds a checkpoint, or more shards than tensors, is an Error(usage).
void synthesise_checkpoint(const SynthOptions& options, int threads);

}  // namespace fathom
