// Where every routed expert lies in its checkpoint, and where its tensors begin once it is read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/extent_reader.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "experts/gated_mlp.h"

namespace fathom {

// An expert as an index: MoE layers one after the other, each with all its experts.
using ExpertId = int32_t;

// Derived from the headers, whatever the order and formats of the tensors are: neighbours in a file
// become one extent, so that an expert of the released files is one read, or two where it straddles
// shards. Keeps no names and nothing of the checkpoint: about 50 bytes per expert.
class ExpertLayout {
 public:
  // gate, up and down, each a weight and (where its format has some) its scales.
  static constexpr size_t kTensors = 6;
  // Tensors of one file with at most so many foreign bytes between them are read at once, and at
  // most a 32nd of the expert: a seek costs about as much as reading this.
  static constexpr uint64_t kMostGap = uint64_t{256} << 10;

  // One read of an expert, and its landing place, counted from the beginning of the slot.
  struct Part {
    Extent extent;
    uint64_t slot_offset = 0;
  };
  struct Parts {
    std::array<Part, kTensors> part;
    size_t count = 0;
    std::span<const Part> all() const& { return {part.data(), count}; }
    std::span<const Part> all() const&& = delete;  // of a value that is gone after the expression
  };
  // One of an expert's tensors. `slot_offset` is the place of its first byte in the slot.
  struct Tensor {
    std::string name;
    Dtype dtype = Dtype::f32;
    int file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t slot_offset = 0;
  };

  // Shapes were checked before (checkpoint/deepseek_tensors.h). File indices are those of the
  // checkpoint's shards. `with_mtp` includes the layer num_hidden_layers.
  ExpertLayout(const Checkpoint& checkpoint, const DeepseekConfig& config, bool with_mtp);

  int64_t layers() const { return static_cast<int64_t>(moe_index_.size()); }  // dense ones too
  bool has_experts(int64_t layer) const {
    return layer >= 0 && layer < layers() && moe_index_[static_cast<size_t>(layer)] >= 0;
  }
  int64_t moe_layers() const { return moe_layers_; }
  int64_t experts_per_layer() const { return experts_; }
  int64_t experts_per_token() const { return top_k_; }
  int64_t expert_count() const { return moe_layers_ * experts_; }
  int64_t hidden_size() const { return hidden_; }
  int64_t intermediate_size() const { return intermediate_; }
  // The files' paths, for errors.
  const std::vector<std::string>& paths() const { return paths_; }

  ExpertId id(int64_t layer, int64_t expert) const {
    return static_cast<ExpertId>(moe_index_[static_cast<size_t>(layer)] * experts_ + expert);
  }
  int64_t layer_of(ExpertId id) const { return moe_layer_[static_cast<size_t>(id / experts_)]; }
  int64_t expert_of(ExpertId id) const { return id % experts_; }

  // Memory that the largest expert needs: landing places and the tail that kernels may read.
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Weights and scales of one expert; of all.
  uint64_t expert_bytes(ExpertId id) const;
  uint64_t total_bytes() const;

  Parts parts(ExpertId id) const;
  GatedMlp weights(ExpertId id, const std::byte* slot) const;
  // Tensor `index` (gate, gate's scales, up, ...); nullopt where there are no scales. `with_name`
  // builds the name, which allocates.
  std::optional<Tensor> tensor(ExpertId id, size_t index, bool with_name) const;
  // Name of the tensor that holds the byte `offset` of `file`, or begins next after it.
  std::string tensor_at(ExpertId id, int file, uint64_t offset) const;

  // Memory that the layout itself takes.
  uint64_t memory_bytes() const;

 private:
  struct StoredExtent {
    uint64_t offset;
    uint32_t bytes;
    int32_t file;
  };
  struct StoredExpert {
    std::array<uint32_t, kTensors> place;  // of the tensors in the slot
    uint32_t first_extent;
    uint8_t extents;
    std::array<WeightFormat, 3> format;
  };
  uint64_t tensor_bytes(const StoredExpert& expert, size_t index) const;
  void add(const Checkpoint& checkpoint, int64_t layer, int64_t expert);

  int64_t experts_ = 0;
  int64_t top_k_ = 0;
  int64_t hidden_ = 0;
  int64_t intermediate_ = 0;
  int64_t block_rows_ = 0;
  int64_t block_cols_ = 0;
  int64_t moe_layers_ = 0;
  uint64_t slot_bytes_ = 0;
  std::vector<int32_t> moe_index_;  // [layer]: its place among the MoE layers, -1 for dense ones
  std::vector<int32_t> moe_layer_;  // [place]: the layer
  std::vector<std::string> paths_;
  std::vector<StoredExpert> stored_;
  std::vector<StoredExtent> extents_;
};

}  // namespace fathom
