// Checkpoints with true headers whose data are holes, but for what routing needs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "checkpoint/safetensors.h"

namespace fathom {

// What a skeleton stores of a checkpoint's data.
//
// A live one has all vectors (norms, biases, the router's bias), the routers' weights and, of
// embedding and head, the rows of some token ids: with every projection zero a hidden state is its
// token's embedding in each layer, and norm and router of the layer choose experts for it. These
// values are those of the full checkpoint of the same seed. The MTP layer's eh_proj, too large to
// be stored, passes the token's embedding on (ones on the diagonal of its first half), so that
// drafts are guesses and not always the same token.
struct LiveParts {
  // A part of a tensor's bytes, and whether it is a single one of eh_proj.
  struct Part {
    uint64_t begin = 0;
    uint64_t bytes = 0;
    bool one = false;
  };

  bool live = false;
  std::vector<std::pair<int64_t, int64_t>> rows;  // [first, end) of token ids, ascending, apart

  // Ascending; what lies between is a hole.
  std::vector<Part> of(const TensorInfo& tensor) const;
};

// The first `count` token ids, a quarter as many of the last, where chat markers are, and `others`.
std::vector<std::pair<int64_t, int64_t>> live_token_rows(int64_t vocab_size, int64_t count,
                                                         const std::vector<int64_t>& others);

class SkeletonWriter {
 public:
  SkeletonWriter(LiveParts parts, uint64_t seed, const CancelToken* cancel);

  uint64_t data_bytes(std::span<const TensorInfo> tensors) const;
  // The most that the data of all shards take of a disk with blocks of a usual size.
  uint64_t disk_bytes(std::span<const TensorInfo> tensors) const;

  // A shard of `tensors`, which lie as place_in_shards() says.
  void write(const std::string& path, const std::string& header,
             std::span<const TensorInfo> tensors, Progress* progress) const;

 private:
  LiveParts parts_;
  uint64_t seed_;
  const CancelToken* cancel_;
};

// Error(io) where no file of the size of the largest shard can be made in `folder`, nearly all of
// it a hole. Leaves nothing there.
void require_holes(const std::string& folder, std::span<const TensorInfo> tensors);

}  // namespace fathom
