// Weights from a checkpoint into memory, as stored.
#pragma once

#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "kernels/weight_view.h"

namespace fathom {

// The memory behind a set of views; views stay valid as long as it lives.
using WeightMemory = std::vector<Buffer>;

// Collects what is to be loaded, then reads it in the order of the files, with all threads.
// Shapes were checked before (checkpoint/deepseek_tensors.h); what is checked here are the bytes:
// values that are NaN or infinite are an Error(input) that names the tensor and the element.
class WeightLoader {
 public:
  // `block_rows` x `block_cols` is the config's weight_block_size (ignored for other formats).
  WeightLoader(const Checkpoint& checkpoint, int64_t block_rows, int64_t block_cols)
      : checkpoint_(&checkpoint), block_rows_(block_rows), block_cols_(block_cols) {}

  // A matrix as stored, with its scales where it is FP8. Its bytes are valid after load().
  WeightView matrix(const std::string& name);
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
  };
  struct Widening {
    const TensorInfo* tensor;
    const std::byte* from;
    float* to;
  };
  std::byte* add(const TensorInfo& tensor);
  const TensorInfo& tensor(const std::string& name) const;

  const Checkpoint* checkpoint_;
  int64_t block_rows_;
  int64_t block_cols_;
  uint64_t bytes_ = 0;
  WeightMemory memory_;
  std::vector<Item> items_;
  std::vector<Widening> widenings_;
};

// Element i of a tensor's bytes (F32, BF16 or F16) as float; for vectors and embedding rows.
void widen(Dtype dtype, const std::byte* from, int64_t count, float* to);
void widen(WeightFormat format, const std::byte* from, int64_t count, float* to);

}  // namespace fathom
