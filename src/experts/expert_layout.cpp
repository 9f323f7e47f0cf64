#include "experts/expert_layout.h"

#include <algorithm>
#include <limits>

#include "base/buffer.h"
#include "base/error.h"
#include "base/join.h"
#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/packed_tensor.h"
#include "experts/weight_loader.h"

namespace fathom {
namespace {

constexpr std::array<std::string_view, 3> kProjections = {"gate_proj", "up_proj", "down_proj"};

Dtype dtype_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::fp8_block:
      return Dtype::f8_e4m3;
    case WeightFormat::bf16:
      return Dtype::bf16;
    case WeightFormat::f16:
      return Dtype::f16;
    case WeightFormat::int8_row:
      return Dtype::i8;
    case WeightFormat::int4:
    case WeightFormat::int3:
    case WeightFormat::int2:
      return Dtype::u8;
    case WeightFormat::f32:
      break;
  }
  return Dtype::f32;
}

Dtype scale_dtype_of(WeightFormat format) {
  return level_bits(format) > 0 ? Dtype::bf16 : Dtype::f32;
}

std::string_view scale_suffix_of(WeightFormat format) {
  return format == WeightFormat::fp8_block ? names::kScaleSuffix : kPackedScaleSuffix;
}

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

const TensorInfo& find(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo* tensor = checkpoint.find(name);
  if (tensor == nullptr) fail_input("{}: no tensor {}", checkpoint.folder(), name);
  return *tensor;
}

void check_shape(const Checkpoint& checkpoint, const TensorInfo& tensor,
                 const std::vector<int64_t>& shape) {
  if (tensor.shape != shape) {
    fail_input("{}: tensor {} has shape {}, by config.json {}", checkpoint.folder(), tensor.name,
               shape_text(tensor.shape), shape_text(shape));
  }
}

}  // namespace

ExpertLayout::ExpertLayout(const Checkpoint& checkpoint, const DeepseekConfig& config,
                           bool with_mtp)
    : experts_(config.n_routed_experts),
      top_k_(config.num_experts_per_tok),
      hidden_(config.hidden_size),
      intermediate_(config.moe_intermediate_size),
      block_rows_(config.weight_block_rows),
      block_cols_(config.weight_block_cols) {
  for (const Shard& shard : checkpoint.shards()) paths_.push_back(shard.file.path());
  const int64_t layers = config.num_hidden_layers + (with_mtp ? 1 : 0);
  moe_index_.assign(static_cast<size_t>(layers), -1);
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!config.is_moe_layer(layer)) continue;
    moe_index_[static_cast<size_t>(layer)] = static_cast<int32_t>(moe_layers_++);
    moe_layer_.push_back(static_cast<int32_t>(layer));
  }
  if (expert_count() > std::numeric_limits<ExpertId>::max()) {
    fail_input("{}: {} layers of {} experts are more than can be counted", checkpoint.folder(),
               moe_layers_, experts_);
  }
  stored_.reserve(static_cast<size_t>(expert_count()));
  extents_.reserve(static_cast<size_t>(expert_count()));
  for (const int32_t layer : moe_layer_) {
    for (int64_t expert = 0; expert < experts_; ++expert) add(checkpoint, layer, expert);
  }
  extents_.shrink_to_fit();
}

void ExpertLayout::add(const Checkpoint& checkpoint, int64_t layer, int64_t expert) {
  struct Piece {
    const TensorInfo* tensor;
    size_t index;
  };
  std::array<Piece, kTensors> pieces;
  size_t count = 0;
  StoredExpert stored{};
  for (size_t p = 0; p < kProjections.size(); ++p) {
    const std::string name = names::expert(layer, expert, kProjections[p]);
    const int64_t rows = p == 2 ? hidden_ : intermediate_;
    const int64_t cols = p == 2 ? intermediate_ : hidden_;
    const TensorInfo& weight = find(checkpoint, name);
    const WeightFormat format = weight_format_of(weight, rows, cols);
    stored.format[p] = format;
    pieces[count++] = {&weight, 2 * p};
    const bool packed = format == WeightFormat::int8_row || level_bits(format) > 0;
    if (!packed) check_shape(checkpoint, weight, {rows, cols});
    if (format != WeightFormat::fp8_block && !packed) continue;
    const TensorInfo& scale = find(checkpoint, name + std::string(scale_suffix_of(format)));
    pieces[count++] = {&scale, 2 * p + 1};
    if (packed) {
      check_shape(checkpoint, scale,
                  packed_shape(packed_bits(weight, rows, cols), rows, cols).scale_shape);
      continue;
    }
    if (block_rows_ < 1 || block_cols_ < 1) {
      fail_input("{}: tensor {} is F8_E4M3, but config.json has no weight_block_size",
                 checkpoint.folder(), name);
    }
    check_shape(checkpoint, scale, {blocks(rows, block_rows_), blocks(cols, block_cols_)});
  }
  uint64_t own_bytes = 0;
  for (size_t i = 0; i < count; ++i) own_bytes += pieces[i].tensor->bytes;
  const uint64_t most_gap = std::min(kMostGap, own_bytes / 32);
  std::sort(pieces.begin(), pieces.begin() + count, [](const Piece& a, const Piece& b) {
    if (a.tensor->shard != b.tensor->shard) return a.tensor->shard < b.tensor->shard;
    return a.tensor->offset < b.tensor->offset;
  });

  stored.first_extent = static_cast<uint32_t>(extents_.size());
  uint64_t slot_offset = 0;  // of the current extent's landing place
  for (size_t begin = 0; begin < count;) {
    Extent extent{pieces[begin].tensor->shard, pieces[begin].tensor->offset, 0};
    uint64_t extent_end = extent.offset;
    size_t end = begin;
    while (end < count && pieces[end].tensor->shard == extent.file &&
           pieces[end].tensor->offset <= extent_end + most_gap) {
      extent_end = std::max(extent_end, pieces[end].tensor->offset + pieces[end].tensor->bytes);
      ++end;
    }
    extent.bytes = extent_end - extent.offset;
    const uint64_t landed = ExtentReader::landing_offset(extent);
    const uint64_t next = slot_offset + ExtentReader::landing_bytes(extent);
    if (next > std::numeric_limits<uint32_t>::max()) {
      fail_input("{}: expert {} of layer {} is larger than 4 GiB", checkpoint.folder(), expert,
                 layer);
    }
    for (; begin < end; ++begin) {
      stored.place[pieces[begin].index] = static_cast<uint32_t>(
          slot_offset + landed + (pieces[begin].tensor->offset - extent.offset));
    }
    extents_.push_back(
        {extent.offset, static_cast<uint32_t>(extent.bytes), static_cast<int32_t>(extent.file)});
    ++stored.extents;
    slot_offset = next;
  }
  stored_.push_back(stored);
  // A kernel's last vector may reach beyond the last tensor, and must not touch the next slot.
  const uint64_t needed = (slot_offset + Buffer::kReadableTail + ExtentReader::kBlock - 1) /
                          ExtentReader::kBlock * ExtentReader::kBlock;
  slot_bytes_ = std::max(slot_bytes_, needed);
}

uint64_t ExpertLayout::tensor_bytes(const StoredExpert& expert, size_t index) const {
  const size_t p = index / 2;
  const int64_t rows = p == 2 ? hidden_ : intermediate_;
  const int64_t cols = p == 2 ? intermediate_ : hidden_;
  WeightView view;
  view.format = expert.format[p];
  view.cols = cols;
  if (index % 2 == 0) return static_cast<uint64_t>(rows * view.row_bytes());
  if (view.row_scale_bytes() > 0) return static_cast<uint64_t>(rows * view.row_scale_bytes());
  if (expert.format[p] != WeightFormat::fp8_block) return 0;
  return static_cast<uint64_t>(blocks(rows, block_rows_) * blocks(cols, block_cols_)) *
         sizeof(float);
}

uint64_t ExpertLayout::expert_bytes(ExpertId id) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < kTensors; ++i) bytes += tensor_bytes(stored_[static_cast<size_t>(id)], i);
  return bytes;
}

uint64_t ExpertLayout::total_bytes() const {
  uint64_t bytes = 0;
  for (ExpertId id = 0; id < expert_count(); ++id) bytes += expert_bytes(id);
  return bytes;
}

ExpertLayout::Parts ExpertLayout::parts(ExpertId id) const {
  const StoredExpert& expert = stored_[static_cast<size_t>(id)];
  Parts parts;
  uint64_t slot_offset = 0;
  for (; parts.count < expert.extents; ++parts.count) {
    const StoredExtent& extent = extents_[expert.first_extent + parts.count];
    Part& part = parts.part[parts.count];
    part = {{extent.file, extent.offset, extent.bytes}, slot_offset};
    slot_offset += ExtentReader::landing_bytes(part.extent);
  }
  return parts;
}

GatedMlp ExpertLayout::weights(ExpertId id, const std::byte* slot) const {
  const StoredExpert& expert = stored_[static_cast<size_t>(id)];
  const auto view = [&](size_t p) {
    WeightView weight;
    weight.format = expert.format[p];
    weight.rows = p == 2 ? hidden_ : intermediate_;
    weight.cols = p == 2 ? intermediate_ : hidden_;
    weight.data = slot + expert.place[2 * p];
    if (weight.format == WeightFormat::fp8_block) {
      weight.scale = slot + expert.place[2 * p + 1];
      weight.scale_cols = blocks(weight.cols, block_cols_);
      weight.block_rows = block_rows_;
      weight.block_cols = block_cols_;
    } else if (weight.has_scales()) {
      const std::byte* scales = slot + expert.place[2 * p + 1];
      weight =
          weight.format == WeightFormat::int8_row
              ? WeightView::int8_rows(weight.rows, weight.cols, weight.data, scales)
              : WeightView::levels(weight.format, weight.rows, weight.cols, weight.data, scales);
    }
    return weight;
  };
  return {view(0), view(1), view(2)};
}

std::optional<ExpertLayout::Tensor> ExpertLayout::tensor(ExpertId id, size_t index,
                                                         bool with_name) const {
  const StoredExpert& expert = stored_[static_cast<size_t>(id)];
  Tensor tensor;
  tensor.bytes = tensor_bytes(expert, index);
  if (tensor.bytes == 0) return std::nullopt;
  const WeightFormat format = expert.format[index / 2];
  tensor.dtype = index % 2 == 0 ? dtype_of(format) : scale_dtype_of(format);
  tensor.slot_offset = expert.place[index];
  const Parts of = parts(id);
  for (const Part& part : of.all()) {
    const uint64_t first = part.slot_offset + ExtentReader::landing_offset(part.extent);
    if (tensor.slot_offset < first || tensor.slot_offset >= first + part.extent.bytes) continue;
    tensor.file = part.extent.file;
    tensor.offset = part.extent.offset + (tensor.slot_offset - first);
  }
  if (with_name) {
    tensor.name = names::expert(layer_of(id), expert_of(id), kProjections[index / 2]);
    if (index % 2 == 1) tensor.name += scale_suffix_of(format);
  }
  return tensor;
}

std::string ExpertLayout::tensor_at(ExpertId id, int file, uint64_t offset) const {
  std::optional<Tensor> nearest;
  for (size_t i = 0; i < kTensors; ++i) {
    std::optional<Tensor> tensor = this->tensor(id, i, true);
    if (!tensor || tensor->file != file || tensor->offset + tensor->bytes <= offset) continue;
    if (!nearest || tensor->offset < nearest->offset) nearest = std::move(tensor);
  }
  if (nearest) return nearest->name;
  return names::expert(layer_of(id), expert_of(id), kProjections[2]);
}

uint64_t ExpertLayout::memory_bytes() const {
  uint64_t bytes = stored_.capacity() * sizeof(StoredExpert) +
                   extents_.capacity() * sizeof(StoredExtent) +
                   (moe_index_.capacity() + moe_layer_.capacity()) * sizeof(int32_t);
  for (const std::string& path : paths_) bytes += sizeof path + path.capacity();
  return bytes;
}

}  // namespace fathom
