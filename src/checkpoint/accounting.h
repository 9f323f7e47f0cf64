// Where a checkpoint's bytes and parameters go, summing up to its payload.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/census.h"
#include "checkpoint/inspection_scan.h"

namespace fathom {

enum class Group : uint8_t { globals, dense_layers, moe_layers, mtp_layers, count };
inline constexpr size_t kGroups = static_cast<size_t>(Group::count);
std::string_view group_name(Group group);

struct Sum {
  size_t tensors = 0;
  uint64_t bytes = 0;       // scales included
  uint64_t parameters = 0;  // values that are no scales
  size_t scale_tensors = 0;
  uint64_t scale_values = 0;
  uint64_t scale_bytes = 0;
  void add(const TensorInfo& tensor, bool scale);
  Sum& operator+=(const Sum& other);
};

struct LayerRow {
  int64_t layer = 0;
  Group group = Group::dense_layers;
  Sum sum;
  uint64_t routed_bytes = 0;
  std::vector<std::pair<int, size_t>> shards;  // shard, tensors of the layer in it; ascending
};

struct ShardRow {
  std::vector<std::pair<int64_t, size_t>> layers;  // layer, its tensors; ascending
  std::vector<std::string> globals;                // names of tensors outside of layers
};

struct Accounting {
  std::array<std::array<Sum, kParts>, kGroups> cells{};
  std::vector<LayerRow> layers;  // ascending
  std::vector<ShardRow> shards;  // as in the scan

  Sum of(Group group) const;
  Sum of(Part part) const;
  Sum total() const;
  Sum total_without_mtp() const;
  const Sum& cell(Group group, Part part) const {
    return cells[static_cast<size_t>(group)][static_cast<size_t>(part)];
  }
  int64_t layer_count(Group group) const;
  // Parameters that one token meets, the MTP layer left out, when `per_token` of `experts` are
  // chosen in each layer; nullopt where that does not divide.
  std::optional<uint64_t> activated(int64_t per_token, int64_t experts) const;
};

// `decoder_layers` is num_hidden_layers where a config says so: layers from there on are MTP.
// Without it, layers that hold a projection of MTP are.
Accounting account(const HeaderScan& scan, const NameReader& names,
                   std::optional<int64_t> decoder_layers);

}  // namespace fathom
