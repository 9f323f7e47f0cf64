#include "checkpoint/accounting.h"

#include <map>
#include <set>

namespace fathom {
namespace {

// Decides what kind of layer each one is.
class LayerKinds {
 public:
  LayerKinds(const std::vector<TensorInfo>& tensors, const NameReader& names,
             std::optional<int64_t> decoder_layers)
      : decoder_layers_(decoder_layers) {
    for (const TensorInfo& tensor : tensors) {
      const NamePlace place = names.place(tensor.name);
      if (place.part == Part::routed_experts) moe_.insert(place.layer);
      if (place.layer >= 0 && place.part == Part::mtp_projection) projecting_.insert(place.layer);
    }
  }
  Group of(int64_t layer) const {
    if (layer < 0) return Group::globals;
    if (decoder_layers_ ? layer >= *decoder_layers_ : projecting_.count(layer) > 0) {
      return Group::mtp_layers;
    }
    return moe_.count(layer) ? Group::moe_layers : Group::dense_layers;
  }

 private:
  std::optional<int64_t> decoder_layers_;
  std::set<int64_t> moe_;
  std::set<int64_t> projecting_;
};

}  // namespace

std::string_view group_name(Group group) {
  static constexpr std::array<std::string_view, kGroups> kNames = {"globals", "dense layers",
                                                                   "MoE layers", "MTP layers"};
  return kNames[static_cast<size_t>(group)];
}

void Sum::add(const TensorInfo& tensor, bool scale) {
  ++tensors;
  bytes += tensor.bytes;
  if (!scale) {
    parameters += value_count(tensor);
    return;
  }
  ++scale_tensors;
  scale_values += value_count(tensor);
  scale_bytes += tensor.bytes;
}

Sum& Sum::operator+=(const Sum& other) {
  tensors += other.tensors;
  bytes += other.bytes;
  parameters += other.parameters;
  scale_tensors += other.scale_tensors;
  scale_values += other.scale_values;
  scale_bytes += other.scale_bytes;
  return *this;
}

Sum Accounting::of(Group group) const {
  Sum sum;
  for (const Sum& cell : cells[static_cast<size_t>(group)]) sum += cell;
  return sum;
}

Sum Accounting::of(Part part) const {
  Sum sum;
  for (const auto& group : cells) sum += group[static_cast<size_t>(part)];
  return sum;
}

Sum Accounting::total_without_mtp() const {
  Sum sum = of(Group::globals);
  sum += of(Group::dense_layers);
  sum += of(Group::moe_layers);
  return sum;
}

Sum Accounting::total() const {
  Sum sum = total_without_mtp();
  sum += of(Group::mtp_layers);
  return sum;
}

int64_t Accounting::layer_count(Group group) const {
  int64_t count = 0;
  for (const LayerRow& row : layers) count += row.group == group;
  return count;
}

std::optional<uint64_t> Accounting::activated(int64_t per_token, int64_t experts) const {
  const Sum all = total_without_mtp();
  const uint64_t routed = cell(Group::moe_layers, Part::routed_experts).parameters;
  if (routed == 0) return all.parameters;
  if (experts <= 0 || per_token <= 0 || per_token > experts) return std::nullopt;
  if (routed % static_cast<uint64_t>(experts) != 0) return std::nullopt;
  return all.parameters - routed +
         routed / static_cast<uint64_t>(experts) * static_cast<uint64_t>(per_token);
}

Accounting account(const HeaderScan& scan, const NameReader& names,
                   std::optional<int64_t> decoder_layers) {
  const LayerKinds kinds(scan.tensors, names, decoder_layers);
  Accounting accounting;
  accounting.shards.resize(scan.shards.size());
  std::map<int64_t, LayerRow> rows;
  std::map<std::pair<int64_t, int>, size_t> meetings;  // layer and shard: tensors
  for (const TensorInfo& tensor : scan.tensors) {
    const NamePlace place = names.place(tensor.name);
    const Group group = kinds.of(place.layer);
    accounting.cells[static_cast<size_t>(group)][static_cast<size_t>(place.part)].add(tensor,
                                                                                      place.scale);
    if (place.layer < 0) {
      accounting.shards[static_cast<size_t>(tensor.shard)].globals.push_back(tensor.name);
      continue;
    }
    LayerRow& row = rows[place.layer];
    row.layer = place.layer;
    row.group = group;
    row.sum.add(tensor, place.scale);
    if (place.part == Part::routed_experts) row.routed_bytes += tensor.bytes;
    ++meetings[{place.layer, tensor.shard}];
  }
  for (const auto& [where, tensors] : meetings) {
    rows[where.first].shards.emplace_back(where.second, tensors);
    accounting.shards[static_cast<size_t>(where.second)].layers.emplace_back(where.first, tensors);
  }
  for (auto& [layer, row] : rows) accounting.layers.push_back(std::move(row));
  return accounting;
}

}  // namespace fathom
