// Rows of the token embedding, from memory or from disk.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "kernels/weight_view.h"

namespace fathom {

// [vocab, hidden]. On disk each row is read when it is asked for (14 KB at R1's width), which takes
// no memory. Copies share what they read from.
class Embedding {
 public:
  Embedding() = default;
  // `table` is in memory that outlives this; bf16, f16, f32 or int8_row.
  explicit Embedding(const WeightView& table) : table_(table) {}
  // The rows of a tensor of a checkpoint, which need not stay open.
  Embedding(const Checkpoint& checkpoint, const TensorInfo& tensor);

  bool on_disk() const { return file_ != nullptr; }
  int64_t hidden() const { return table_.cols; }
  // Widens one row into hidden() floats; int8_row with one rounding (value * scale). From disk:
  // Error(io) where it cannot be read, Error(input) where a value is not finite. One thread at a
  // time.
  void row(int64_t token, float* out) const;

 private:
  WeightView table_;  // without data where it is on disk
  std::shared_ptr<const File> file_;
  uint64_t offset_ = 0;
  std::shared_ptr<std::vector<std::byte>> read_;  // one row as stored
};

}  // namespace fathom
