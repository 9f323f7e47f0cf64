#include "experts/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/fp8_check.h"
#include "numerics/half.h"

namespace fathom {
namespace {

// Large tensors are read in pieces, so that all threads have work and the bar moves.
constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

WeightFormat format_of(const TensorInfo& tensor) {
  switch (tensor.dtype) {
    case Dtype::f8_e4m3:
      return WeightFormat::fp8_block;
    case Dtype::bf16:
      return WeightFormat::bf16;
    case Dtype::f16:
      return WeightFormat::f16;
    case Dtype::f32:
      return WeightFormat::f32;
    default:
      fail_input("{}: dtype {} is no weight format", tensor.name, dtype_name(tensor.dtype));
  }
}

}  // namespace

const TensorInfo& WeightLoader::tensor(const std::string& name) const {
  const TensorInfo* found = checkpoint_->find(name);
  if (found == nullptr) fail_input("{}: no tensor {}", checkpoint_->folder(), name);
  return *found;
}

std::byte* WeightLoader::add(const TensorInfo& tensor) {
  std::byte* to = memory_.emplace_back(tensor.bytes).data();
  items_.push_back({&tensor, to});
  bytes_ += tensor.bytes;
  return to;
}

WeightView WeightLoader::matrix(const std::string& name) {
  const TensorInfo& weight = tensor(name);
  WeightView view;
  view.format = format_of(weight);
  view.rows = weight.shape.at(0);
  view.cols = weight.shape.at(1);
  view.data = add(weight);
  if (view.format == WeightFormat::fp8_block) {
    const TensorInfo& scale = tensor(name + std::string(names::kScaleSuffix));
    view.scale = add(scale);
    view.scale_cols = scale.shape.at(1);
    view.block_rows = block_rows_;
    view.block_cols = block_cols_;
  }
  return view;
}

const float* WeightLoader::vector(const std::string& name) {
  const TensorInfo& stored = tensor(name);
  const std::byte* from = add(stored);
  const int64_t count = static_cast<int64_t>(stored.bytes) / dtype_bytes(stored.dtype);
  auto* to = reinterpret_cast<float*>(
      memory_.emplace_back(static_cast<size_t>(count) * sizeof(float)).data());
  widenings_.push_back({&stored, from, to});
  return to;
}

void WeightLoader::load(ThreadPool& pool, const std::string& label, const CancelToken* cancel) {
  struct Piece {
    const Item* item;
    uint64_t begin;
    uint64_t bytes;
  };
  // In the order of the files: neighbours on the disk are read one after the other.
  std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    if (a.tensor->shard != b.tensor->shard) return a.tensor->shard < b.tensor->shard;
    return a.tensor->offset < b.tensor->offset;
  });
  std::vector<Piece> pieces;
  for (const Item& item : items_) {
    for (uint64_t begin = 0; begin < item.tensor->bytes; begin += kPieceBytes) {
      pieces.push_back({&item, begin, std::min(kPieceBytes, item.tensor->bytes - begin)});
    }
  }
  Progress progress(label, bytes_, ProgressUnit::bytes);
  std::mutex progress_mutex;
  const auto& shards = checkpoint_->shards();
  pool.parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t index, int) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const Piece& piece = pieces[static_cast<size_t>(index)];
    const TensorInfo& tensor = *piece.item->tensor;
    const std::span<std::byte> into(piece.item->to + piece.begin, piece.bytes);
    const Shard& shard = shards[static_cast<size_t>(tensor.shard)];
    shard.file.read_at(tensor.offset + piece.begin, into);
    // Pieces begin at whole elements: their size is a multiple of any element's.
    if (const std::optional<uint64_t> at = find_not_finite(tensor.dtype, into)) {
      const auto size = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
      fail_input("{}: tensor {}: element {} (file offset {}) is {}", shard.file.path(), tensor.name,
                 piece.begin / size + *at, tensor.offset + piece.begin + *at * size,
                 tensor.dtype == Dtype::f8_e4m3 ? "the FP8 code for NaN" : "not a finite number");
    }
    const std::lock_guard lock(progress_mutex);
    progress.add(piece.bytes);
  });
  for (const Widening& w : widenings_) {
    const int64_t count = static_cast<int64_t>(w.tensor->bytes) / dtype_bytes(w.tensor->dtype);
    widen(w.tensor->dtype, w.from, count, w.to);
  }
  items_.clear();
  widenings_.clear();
}

void widen(WeightFormat format, const std::byte* from, int64_t count, float* to) {
  if (format == WeightFormat::f32) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    to[i] = format == WeightFormat::bf16 ? bf16_to_float(bits) : fp16_to_float(bits);
  }
}

void widen(Dtype dtype, const std::byte* from, int64_t count, float* to) {
  switch (dtype) {
    case Dtype::f32:
      return widen(WeightFormat::f32, from, count, to);
    case Dtype::bf16:
      return widen(WeightFormat::bf16, from, count, to);
    case Dtype::f16:
      return widen(WeightFormat::f16, from, count, to);
    default:
      fail_input("dtype {} cannot be widened", dtype_name(dtype));
  }
}

}  // namespace fathom
