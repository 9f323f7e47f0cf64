#include "checkpoint/footprint.h"

#include <optional>

#include "checkpoint/deepseek_tensors.h"

namespace fathom {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<WeightFamily> family_in_layer(std::string_view name) {
  if (contains(name, ".self_attn.")) return WeightFamily::attention;
  if (contains(name, ".mlp.experts.")) return WeightFamily::routed_experts;
  if (contains(name, ".mlp.shared_experts.")) return WeightFamily::shared_experts;
  if (contains(name, ".mlp.gate.")) return WeightFamily::router;
  if (contains(name, ".mlp.")) return WeightFamily::dense_mlp;
  if (contains(name, ".eh_proj.")) return WeightFamily::eh_proj;
  if (contains(name, ".shared_head.head.")) return WeightFamily::head;
  if (contains(name, ".embed_tokens.")) return WeightFamily::embedding;
  if (contains(name, "norm.")) return WeightFamily::norms;
  return std::nullopt;
}

}  // namespace

std::string_view family_name(WeightFamily family) {
  switch (family) {
    case WeightFamily::embedding:
      return "embedding";
    case WeightFamily::attention:
      return "attention";
    case WeightFamily::norms:
      return "norms";
    case WeightFamily::dense_mlp:
      return "dense MLP";
    case WeightFamily::router:
      return "routers";
    case WeightFamily::shared_experts:
      return "shared experts";
    case WeightFamily::routed_experts:
      return "routed experts";
    case WeightFamily::head:
      return "head";
    case WeightFamily::eh_proj:
      return "MTP projection";
    case WeightFamily::count:
      break;
  }
  return "";
}

uint64_t Footprint::total(bool with_mtp) const {
  uint64_t sum = 0;
  for (size_t family = 0; family < main.size(); ++family) {
    sum += of(static_cast<WeightFamily>(family), with_mtp);
  }
  return sum;
}

Footprint footprint_of(const Checkpoint& checkpoint, const DeepseekConfig& config) {
  Footprint footprint;
  const auto add = [](auto& bytes, WeightFamily family, const TensorInfo& tensor) {
    bytes[static_cast<size_t>(family)] += tensor.bytes;
  };
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.name == names::kEmbedding) add(footprint.main, WeightFamily::embedding, tensor);
    if (tensor.name == names::kFinalNorm) add(footprint.main, WeightFamily::norms, tensor);
    if (tensor.name == names::kHead && !config.tie_word_embeddings) {
      add(footprint.main, WeightFamily::head, tensor);
    }
    const std::optional<int64_t> layer = names::layer_of(tensor.name);
    if (!layer) continue;
    const std::optional<WeightFamily> family = family_in_layer(tensor.name);
    if (!family) continue;
    if (*layer < config.num_hidden_layers) {
      add(footprint.main, *family, tensor);
    } else if (*layer == config.num_hidden_layers && config.num_nextn_predict_layers > 0) {
      add(footprint.mtp, *family, tensor);
    }
  }
  return footprint;
}

}  // namespace fathom
