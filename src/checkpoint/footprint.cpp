#include "checkpoint/footprint.h"

#include <optional>

#include "checkpoint/model_tensors.h"

namespace fathom {

uint64_t Footprint::total(bool with_mtp) const {
  uint64_t sum = 0;
  for (size_t part = 0; part < kParts; ++part) sum += of(static_cast<Part>(part), with_mtp);
  return sum;
}

Footprint footprint_of(const Checkpoint& checkpoint, const ModelConfig& config) {
  const int64_t layers = shape_of(config).num_hidden_layers;
  const bool tied = has_tied_embeddings(config);
  Footprint footprint;
  const auto add = [](auto& bytes, Part part, const TensorInfo& tensor) {
    bytes[static_cast<size_t>(part)] += tensor.bytes;
  };
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.name == names::kEmbedding) add(footprint.main, Part::embedding, tensor);
    if (tensor.name == names::kFinalNorm) add(footprint.main, Part::norms, tensor);
    if (tensor.name == names::kHead && !tied) {
      add(footprint.main, Part::head, tensor);
    }
    const std::optional<int64_t> layer = names::layer_of(tensor.name);
    if (!layer) continue;
    const Part part = part_in_layer(names::rest_in_layer(tensor.name));
    if (part == Part::other) continue;
    if (*layer < layers) {
      add(footprint.main, part, tensor);
    } else if (*layer == layers && has_mtp_layer(config)) {
      add(footprint.mtp, part, tensor);
    }
  }
  return footprint;
}

}  // namespace fathom
