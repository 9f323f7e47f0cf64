// Writing one shard of a quantised checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/progress.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

// A tensor of the copy. `from` is what it is made of; of a matrix that is quantised, the codes
// (bits > 0) are followed by the scales, which have no `from`.
struct QuantisedTensor {
  TensorInfo info;
  const TensorInfo* from = nullptr;
  const TensorInfo* grid = nullptr;  // FP8's scales
  int bits = 0;                      // 0: copied
};

// The scales' grid of FP8 matrices: weight_block_size.
struct BlockSize {
  int64_t rows = 0;
  int64_t cols = 0;
};

// Reads and writes on one thread while the others quantise.
class QuantisedShardWriter {
 public:
  QuantisedShardWriter(const Checkpoint& checkpoint, BlockSize block, ThreadPool* pool,
                       const CancelToken* cancel, Progress* progress)
      : checkpoint_(checkpoint),
        block_(block),
        pool_(*pool),
        cancel_(cancel),
        progress_(*progress) {}

  // Memory that writing takes.
  static uint64_t memory_bytes(std::span<const QuantisedTensor> tensors);

  void write(const std::string& path, const std::string& header,
             std::span<const QuantisedTensor> tensors);

 private:
  // Part of a tensor: rows of one that is quantised, bytes of one that is copied, all scales.
  struct Piece {
    const QuantisedTensor* tensor;
    uint64_t begin = 0;  // bytes of `from`
    uint64_t bytes = 0;
    size_t matrix = 0;  // counts the matrices that are quantised
  };
  // What the pieces of a matrix share.
  struct Matrix {
    std::vector<std::byte> grid;
    std::vector<std::byte> scales;
  };
  static constexpr uint64_t kPiece = uint64_t{4} << 20;
  static constexpr size_t kBuffers = 3;  // one is read, one worked on, one written

  static uint64_t row_bytes(const QuantisedTensor& tensor);
  static uint64_t packed_bytes(const Piece& piece);
  static std::vector<Piece> cut(std::span<const QuantisedTensor> tensors);
  void read(const Piece& piece, size_t turn);
  void begin(const Piece& piece);
  void quantise(const Piece& piece, size_t turn, int64_t first, int64_t last);
  std::span<const std::byte> result(const Piece& piece, size_t turn) const;
  Matrix& matrix(const Piece& piece) { return matrices_[piece.matrix % kBuffers]; }
  const Matrix& matrix(const Piece& piece) const { return matrices_[piece.matrix % kBuffers]; }
  void widen_row(const Piece& piece, const std::byte* from, int64_t row,
                 std::span<float> values) const;

  const Checkpoint& checkpoint_;
  BlockSize block_;
  ThreadPool& pool_;
  const CancelToken* cancel_;
  Progress& progress_;
  Buffer in_[kBuffers];
  Buffer out_[kBuffers];
  Matrix matrices_[kBuffers];
};

}  // namespace fathom
