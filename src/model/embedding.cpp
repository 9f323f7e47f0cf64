#include "model/embedding.h"

#include <cstring>
#include <optional>

#include "base/error.h"
#include "checkpoint/fp8_check.h"
#include "experts/weight_loader.h"
#include "numerics/int8_row.h"

namespace fathom {

Embedding::Embedding(const Checkpoint& checkpoint, const TensorInfo& tensor)
    : file_(std::make_shared<File>(
          checkpoint.shards()[static_cast<size_t>(tensor.shard)].file.path())),
      offset_(tensor.offset) {
  table_.format = weight_format_of(tensor);
  table_.rows = tensor.shape.at(0);
  table_.cols = tensor.shape.at(1);
  read_ = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(table_.row_bytes()));
}

void Embedding::row(int64_t token, float* out) const {
  if (table_.format == WeightFormat::int8_row) {
    float scale;
    std::memcpy(&scale, table_.scale + token * static_cast<int64_t>(sizeof scale), sizeof scale);
    widen_int8_row(table_.data + token * table_.row_bytes(), scale, table_.cols, out);
    return;
  }
  if (!on_disk()) {
    widen(table_.format, table_.data + token * table_.row_bytes(), table_.cols, out);
    return;
  }
  const uint64_t at = offset_ + static_cast<uint64_t>(token * table_.row_bytes());
  file_->read_at(at, *read_);
  widen(table_.format, read_->data(), table_.cols, out);
  const std::span<const std::byte> values(reinterpret_cast<const std::byte*>(out),
                                          static_cast<size_t>(table_.cols) * sizeof(float));
  if (const std::optional<uint64_t> bad = find_not_finite(Dtype::f32, values)) {
    fail_input("{}: embedding of token {} (file offset {}): element {} is not a finite number",
               file_->path(), token, at, *bad);
  }
}

}  // namespace fathom
