// Weights from a checkpoint into memory, as stored or in 8 bits.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/widen.h"
#include "kernels/weight_view.h"

namespace fathom {

// The memory behind a set of views; views stay valid as long as it lives.
using WeightMemory = std::vector<Buffer>;

// The format of a weight tensor; Error(input) where its dtype is none. Of those that `fathom
// quantize` writes (checkpoint/packed_tensor.h) the shape is looked at too: int8_row, int4, int3,
// int2 for a matrix of rows x cols.
WeightFormat weight_format_of(const TensorInfo& tensor);
WeightFormat weight_format_of(const TensorInfo& tensor, int64_t rows, int64_t cols);

// Bytes of a matrix and its rows' own scales (int8_row, int4, int3, int2; also plain formats).
uint64_t matrix_bytes(WeightFormat format, int64_t rows, int64_t cols);

// Collects what is to be loaded, then reads it in the order of the files, past the page cache where
// the system allows it. Shapes were checked before (checkpoint/deepseek_tensors.h); what is checked
// here are the bytes: values that are NaN or infinite are an Error(input) that names the tensor and
// the element.
class WeightLoader {
 public:
  // Memory that load() takes for landing places while it runs.
  static constexpr uint64_t kLandingBytes = (uint64_t{4} << 20) * 4;

  // `block_rows` x `block_cols` is the config's weight_block_size (ignored for other formats).
  WeightLoader(const Checkpoint& checkpoint, int64_t block_rows, int64_t block_cols)
      : checkpoint_(&checkpoint), block_rows_(block_rows), block_cols_(block_cols) {}

  // A matrix as stored, with its scales where it has some. Its bytes are valid after load(). `cols`
  // is the matrix's width by its config; 0: the stored shape's, which only packed matrices hide.
  WeightView matrix(const std::string& name, int64_t cols = 0);
  // The matrix made `to` (int8_row, int4, int3, int2), whatever float format it is stored in. Rows
  // are quantised as they land: the stored tensor is never whole in memory. One that is stored as
  // `to` is taken as it is.
  WeightView quantised_matrix(const std::string& name, WeightFormat to = WeightFormat::int8_row,
                              int64_t cols = 0);
  // A vector (norm weight, bias) widened to float; valid after load().
  const float* vector(const std::string& name);

  uint64_t bytes() const { return bytes_; }
  // Reads everything collected so far; shows a bar with `label`.
  void load(ThreadPool& pool, const std::string& label, const CancelToken* cancel);
  WeightMemory take_memory() { return std::move(memory_); }

 private:
  struct Item {
    const TensorInfo* tensor;
    std::byte* to;
    std::byte* scales = nullptr;  // of rows that are quantised; null: kept as stored
    WeightFormat made = WeightFormat::int8_row;
    uint64_t row_bytes() const;  // as stored; of what is quantised
  };
  struct Widening {
    const TensorInfo* tensor;
    const std::byte* from;
    float* to;
  };
  // Part of a tensor inside what one read brings.
  struct Part {
    const Item* item;
    uint64_t begin;  // in the tensor
    uint64_t bytes;
    uint64_t at;  // in the read
  };
  struct Read {
    int shard;
    uint64_t offset;
    uint64_t bytes;
    std::vector<Part> parts;
  };
  std::byte* add(const TensorInfo& tensor);
  const TensorInfo& tensor(const std::string& name) const;
  std::vector<Read> plan_reads();
  void take_stored(const Part& part, const std::byte* landed, ThreadPool& pool) const;
  void take_quantised(const Part& part, const std::byte* landed, ThreadPool& pool) const;
  void check_finite(const TensorInfo& tensor, uint64_t begin,
                    std::span<const std::byte> bytes) const;
  void take(const Read& read, const std::byte* landed, ThreadPool& pool) const;

  const Checkpoint* checkpoint_;
  int64_t block_rows_;
  int64_t block_cols_;
  uint64_t bytes_ = 0;
  WeightMemory memory_;
  std::vector<Item> items_;
  std::vector<Widening> widenings_;
};

// f32, bf16 or f16 as float, as checkpoint/widen.h does it; for vectors and embedding rows.
void widen(WeightFormat format, const std::byte* from, int64_t count, float* to);

}  // namespace fathom
