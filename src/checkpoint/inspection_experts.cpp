#include "checkpoint/inspection_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace fathom {
namespace {

using Pieces = std::vector<const TensorInfo*>;

bool before(const TensorInfo* a, const TensorInfo* b) {
  return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
}

bool has_gap(const Pieces& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    const TensorInfo& last = *tensors[i - 1];
    if (last.shard == tensors[i]->shard && last.offset + last.bytes != tensors[i]->offset) {
      return true;
    }
  }
  return false;
}

}  // namespace

ExpertPlaces place_experts(const HeaderScan& scan, const NameReader& names) {
  std::map<std::pair<int64_t, int64_t>, Pieces> experts;
  for (const TensorInfo& tensor : scan.tensors) {
    const NamePlace place = names.place(tensor.name);
    if (place.expert >= 0) experts[{place.layer, place.expert}].push_back(&tensor);
  }
  ExpertPlaces places;
  places.experts = experts.size();
  std::map<std::vector<std::string>, size_t> orders;
  std::map<int64_t, size_t> per_layer;
  std::map<int64_t, bool> in_order;
  const TensorInfo* previous = nullptr;  // the first tensor of the expert before, in its layer
  for (auto& [id, tensors] : experts) {
    const auto [layer, expert] = id;
    std::sort(tensors.begin(), tensors.end(), before);
    Straddler straddler{layer, expert, {}};
    std::vector<std::string> order;
    uint64_t bytes = 0;
    for (const TensorInfo* tensor : tensors) {
      const std::string rest = tensor->name.substr(names.place(tensor->name).rest);
      if (straddler.pieces.empty() || straddler.pieces.back().shard != tensor->shard) {
        straddler.pieces.push_back({tensor->shard, {}, 0});
      }
      straddler.pieces.back().tensors.push_back(rest);
      straddler.pieces.back().bytes += tensor->bytes;
      order.push_back(rest);
      bytes += tensor->bytes;
    }
    const bool first_of_layer = per_layer[layer]++ == 0;
    if (first_of_layer) {
      places.layers.push_back(layer);
      in_order[layer] = true;
    } else if (!before(previous, tensors.front())) {
      in_order[layer] = false;
    }
    previous = tensors.front();
    const bool gap = has_gap(tensors);
    places.scattered += gap;
    places.contiguous += !gap && straddler.pieces.size() == 1;
    places.most_bytes = std::max(places.most_bytes, bytes);
    places.least_bytes = places.least_bytes == 0 ? bytes : std::min(places.least_bytes, bytes);
    ++orders[order];
    if (straddler.pieces.size() > 1) places.straddlers.push_back(std::move(straddler));
  }
  for (const auto& [order, count] : orders) places.orders.push_back({order, count});
  std::stable_sort(
      places.orders.begin(), places.orders.end(),
      [](const ExpertOrder& a, const ExpertOrder& b) { return a.experts > b.experts; });
  for (const auto& [layer, ordered] : in_order) places.layers_in_order += ordered;

  std::map<size_t, size_t> usual;  // experts in a layer: how many layers
  for (const auto& [layer, count] : per_layer) ++usual[count];
  size_t most_usual = 0;
  for (const auto& [count, layers] : usual) {
    if (most_usual == 0 || layers >= usual[most_usual]) most_usual = count;
  }
  for (const auto& [layer, count] : per_layer) {
    if (count == most_usual) continue;
    places.irregular.push_back(
        fmt::format("layer {} has {} experts, others {}", layer, count, most_usual));
  }
  return places;
}

}  // namespace fathom
