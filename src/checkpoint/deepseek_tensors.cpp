#include "checkpoint/deepseek_tensors.h"
#include "checkpoint/packed_tensor.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/json_sax.h"
#include "base/log.h"

namespace fathom {

namespace names {
namespace {

constexpr std::string_view kLayers = "model.layers.";

}  // namespace

std::string layer(int64_t layer, std::string_view rest) {
  return fmt::format("{}{}.{}", kLayers, layer, rest);
}

std::string expert(int64_t layer, int64_t expert, std::string_view projection) {
  return fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", layer, expert, projection);
}

std::optional<int64_t> layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return layer;
}

std::string_view rest_in_layer(std::string_view name) {
  return name.substr(name.find('.', kLayers.size()) + 1);
}

}  // namespace names

namespace {

// Lists the tensors of one layer in the order of the released files.
class LayerLister {
 public:
  LayerLister(const DeepseekConfig& config, int64_t layer, std::vector<ExpectedTensor>* list)
      : config_(config), layer_(layer), mtp_(layer >= config.num_hidden_layers), list_(list) {}

  void attention() {
    const int64_t hidden = config_.hidden_size;
    const int64_t heads = config_.num_attention_heads;
    const int64_t q_rows = heads * config_.qk_head_dim();
    if (config_.q_lora_rank) {
      const int64_t rank = *config_.q_lora_rank;
      matrix("self_attn.q_a_proj", rank, hidden);
      if (config_.attention_bias) vector("self_attn.q_a_proj.bias", rank);
      vector("self_attn.q_a_layernorm.weight", rank);
      matrix("self_attn.q_b_proj", q_rows, rank);
    } else {
      matrix("self_attn.q_proj", q_rows, hidden);
    }
    const int64_t kv_a_rows = config_.kv_lora_rank + config_.qk_rope_head_dim;
    matrix("self_attn.kv_a_proj_with_mqa", kv_a_rows, hidden);
    if (config_.attention_bias) vector("self_attn.kv_a_proj_with_mqa.bias", kv_a_rows);
    vector("self_attn.kv_a_layernorm.weight", config_.kv_lora_rank);
    matrix("self_attn.kv_b_proj", heads * (config_.qk_nope_head_dim + config_.v_head_dim),
           config_.kv_lora_rank);
    matrix("self_attn.o_proj", hidden, heads * config_.v_head_dim);
    if (config_.attention_bias) vector("self_attn.o_proj.bias", hidden);
  }

  void mlp() {
    if (!config_.is_moe_layer(layer_)) return gated("mlp", config_.intermediate_size);
    const int64_t experts = config_.n_routed_experts;
    add("mlp.gate.weight", {experts, config_.hidden_size}, false);
    vector("mlp.gate.e_score_correction_bias", experts);
    if (config_.n_shared_experts > 0) {
      gated("mlp.shared_experts", config_.n_shared_experts * config_.moe_intermediate_size);
    }
    for (int64_t expert = 0; expert < experts; ++expert) {
      gated(fmt::format("mlp.experts.{}", expert), config_.moe_intermediate_size);
    }
  }

  void norms() {
    vector("input_layernorm.weight", config_.hidden_size);
    vector("post_attention_layernorm.weight", config_.hidden_size);
  }

  void mtp() {
    const int64_t hidden = config_.hidden_size;
    add("embed_tokens.weight", {config_.vocab_size, hidden}, false);
    vector("enorm.weight", hidden);
    vector("hnorm.weight", hidden);
    add("eh_proj.weight", {hidden, 2 * hidden}, false);
    vector("shared_head.norm.weight", hidden);
    add("shared_head.head.weight", {config_.vocab_size, hidden}, false);
  }

 private:
  void gated(const std::string& block, int64_t width) {
    matrix(block + ".gate_proj", width, config_.hidden_size);
    matrix(block + ".up_proj", width, config_.hidden_size);
    matrix(block + ".down_proj", config_.hidden_size, width);
  }
  void matrix(const std::string& name, int64_t rows, int64_t cols) {
    add(name + ".weight", {rows, cols}, true);
  }
  void vector(std::string_view name, int64_t size) { add(name, {size}, false); }
  void add(std::string_view name, std::vector<int64_t> shape, bool quantised) {
    list_->push_back({names::layer(layer_, name), std::move(shape), quantised, mtp_});
  }

  const DeepseekConfig& config_;
  int64_t layer_;
  bool mtp_;
  std::vector<ExpectedTensor>* list_;
};

// True for names that no decoder layer has.
bool only_mtp_has(std::string_view name) {
  for (const std::string_view part :
       {".enorm.", ".hnorm.", ".eh_proj.", ".shared_head.", ".embed_tokens."}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool is_routed_expert(std::string_view name) {
  return name.find(".mlp.experts.") != std::string_view::npos;
}

class Checker {
 public:
  Checker(const Checkpoint& checkpoint, const DeepseekConfig& config)
      : checkpoint_(checkpoint), config_(config) {}

  TensorComparison run() {
    bool any_mtp = false;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      any_mtp |= names::layer_of(tensor.name) == config_.num_hidden_layers;
    }
    TensorReport report;
    report.has_mtp = any_mtp && config_.num_nextn_predict_layers > 0;
    if (config_.num_nextn_predict_layers > 0 && !any_mtp) {
      log::info("{}: config.json speaks of a multi-token-prediction layer, the checkpoint has none",
                checkpoint_.folder());
    }
    if (config_.num_nextn_predict_layers == 0 && any_mtp) {
      log::info("{}: the multi-token-prediction layer is left out, as config.json has none",
                checkpoint_.folder());
    }
    for (const ExpectedTensor& expected : expected_deepseek_tensors(config_, report.has_mtp)) {
      check(expected);
    }
    report.unexpected = unexpected();
    return {std::move(report), std::move(problems_)};
  }

  void warn_of(const std::vector<std::string>& unexpected) const {
    if (unexpected.empty()) return;
    constexpr size_t kNamed = 5;
    std::vector<std::string> some;
    for (const std::string& name : unexpected) {
      if (some.size() == kNamed) break;
      some.push_back(quoted_for_message(name));
    }
    log::warning("{}: {} tensor{} not used: {}{}", checkpoint_.folder(), unexpected.size(),
                 unexpected.size() == 1 ? " is" : "s are", join(some, ", "),
                 unexpected.size() > kNamed ? ", ..." : "");
  }

 private:
  // Tensors that may be absent because another one takes their place: a tied head, and the copies
  // of embedding and head that some exporters leave out of the MTP layer.
  bool has_substitute(const ExpectedTensor& expected) const {
    if (expected.name == names::kHead) return config_.tie_word_embeddings;
    return expected.mtp && (expected.name.ends_with(".embed_tokens.weight") ||
                            expected.name.ends_with(".shared_head.head.weight"));
  }

  void check(const ExpectedTensor& expected) {
    const TensorInfo* tensor = checkpoint_.find(expected.name);
    if (tensor == nullptr) {
      if (!has_substitute(expected)) problems_.add("missing", expected.name, "");
      return;
    }
    known_.insert(tensor->name);
    if (is_routed_expert(expected.name) && expected.shape.size() == 2 &&
        packed_bits(*tensor, expected.shape[0], expected.shape[1]) != 0) {
      check_packed_scale(*tensor, expected.shape);
      return;
    }
    if (tensor->shape != expected.shape) {
      problems_.add("wrong shape", expected.name,
                    fmt::format("{}, by config.json {}", shape_text(tensor->shape),
                                shape_text(expected.shape)));
      return;
    }
    const bool plain =
        tensor->dtype == Dtype::bf16 || tensor->dtype == Dtype::f16 || tensor->dtype == Dtype::f32;
    if (tensor->dtype == Dtype::f8_e4m3 && expected.quantised) {
      check_scale(*tensor);
    } else if (!plain) {
      problems_.add("wrong dtype", expected.name,
                    fmt::format("{}; accepted: {}BF16, F16, F32", dtype_name(tensor->dtype),
                                expected.quantised ? "F8_E4M3, " : ""));
    } else if (tensor->dtype != Dtype::f32 && expected.name.ends_with("e_score_correction_bias")) {
      ++rounded_biases_;
      if (rounded_biases_ == 1) {
        log::warning(
            "{}: {} is {} and not F32: the exporter rounded it, close choices of experts "
            "may differ",
            checkpoint_.folder(), expected.name, dtype_name(tensor->dtype));
      }
    }
  }

  void check_packed_scale(const TensorInfo& weight, const std::vector<int64_t>& shape) {
    const std::string name = weight.name + std::string(kPackedScaleSuffix);
    const TensorInfo* scale = checkpoint_.find(name);
    if (scale == nullptr) {
      problems_.add("no scale", weight.name,
                    fmt::format("{}, but {} is missing", dtype_name(weight.dtype), name));
      return;
    }
    known_.insert(scale->name);
    const PackedShape packed =
        packed_shape(packed_bits(weight, shape[0], shape[1]), shape[0], shape[1]);
    if (scale->shape != packed.scale_shape) {
      problems_.add("wrong shape", name,
                    fmt::format("{}, for weight {} it must be {}", shape_text(scale->shape),
                                shape_text(shape), shape_text(packed.scale_shape)));
    } else if (scale->dtype != packed.scale_dtype) {
      problems_.add("wrong dtype", name,
                    fmt::format("{}; accepted: {}", dtype_name(scale->dtype),
                                dtype_name(packed.scale_dtype)));
    }
  }

  void check_scale(const TensorInfo& weight) {
    if (config_.weight_block_rows == 0) {
      problems_.add("wrong dtype", weight.name,
                    "F8_E4M3, but config.json has no quantization_config to say its blocks");
      return;
    }
    const std::string name = weight.name + std::string(names::kScaleSuffix);
    const TensorInfo* scale = checkpoint_.find(name);
    if (scale == nullptr) {
      problems_.add("no scale", weight.name,
                    fmt::format("F8_E4M3, but {} is missing{}", name, other_scale(weight.name)));
      return;
    }
    known_.insert(scale->name);
    const std::vector<int64_t> grid = {
        (weight.shape[0] + config_.weight_block_rows - 1) / config_.weight_block_rows,
        (weight.shape[1] + config_.weight_block_cols - 1) / config_.weight_block_cols};
    if (scale->shape != grid) {
      problems_.add(
          "wrong shape", name,
          fmt::format("{}, for weight {} in blocks of {}x{} it must be {}",
                      shape_text(scale->shape), shape_text(weight.shape), config_.weight_block_rows,
                      config_.weight_block_cols, shape_text(grid)));
    } else if (scale->dtype != Dtype::f32) {
      problems_.add("wrong dtype", name,
                    fmt::format("{}; scales are only accepted as F32", dtype_name(scale->dtype)));
    }
  }

  // Other tools name the scale otherwise; saying so tells why the file does not fit.
  std::string other_scale(const std::string& weight) const {
    for (const std::string_view suffix : {"_scale", "_scales", "_inv_scale"}) {
      const std::string name = weight + std::string(suffix);
      if (checkpoint_.find(name) != nullptr) return fmt::format(" ({} is there instead)", name);
    }
    return "";
  }

  std::vector<std::string> unexpected() const {
    const int64_t first_unused =
        config_.num_hidden_layers + (config_.num_nextn_predict_layers > 0 ? 1 : 0);
    std::unordered_set<int64_t> unused_mtp;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      const std::optional<int64_t> layer = names::layer_of(tensor.name);
      if (layer && *layer >= first_unused && only_mtp_has(tensor.name)) unused_mtp.insert(*layer);
    }
    std::vector<std::string> found;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      if (known_.count(tensor.name)) continue;
      // MTP layers that are not used, further ones included, are known all the same. Decoder layers
      // at their place are not: then num_hidden_layers is too small.
      const std::optional<int64_t> layer = names::layer_of(tensor.name);
      if (layer && unused_mtp.count(*layer)) continue;
      // A table that old exporters save; it is computed here.
      if (tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
      found.push_back(tensor.name);
    }
    return found;
  }

  const Checkpoint& checkpoint_;
  const DeepseekConfig& config_;
  std::unordered_set<std::string_view> known_;  // views into the checkpoint's names
  ProblemList problems_;
  int rounded_biases_ = 0;
};

}  // namespace

std::vector<ExpectedTensor> expected_deepseek_tensors(const DeepseekConfig& config, bool with_mtp) {
  std::vector<ExpectedTensor> list;
  const std::vector<int64_t> vocabulary = {config.vocab_size, config.hidden_size};
  list.push_back({std::string(names::kEmbedding), vocabulary, false, false});
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    LayerLister lister(config, layer, &list);
    lister.attention();
    lister.mlp();
    lister.norms();
  }
  list.push_back({std::string(names::kFinalNorm), {config.hidden_size}, false, false});
  list.push_back({std::string(names::kHead), vocabulary, false, false});
  if (with_mtp) {
    LayerLister lister(config, config.num_hidden_layers, &list);
    lister.attention();
    lister.mlp();
    lister.norms();
    lister.mtp();
  }
  return list;
}

TensorReport check_deepseek_tensors(const Checkpoint& checkpoint, const DeepseekConfig& config) {
  Checker checker(checkpoint, config);
  TensorComparison comparison = checker.run();
  comparison.problems.fail_if_any(checkpoint.folder());
  checker.warn_of(comparison.report.unexpected);
  return std::move(comparison.report);
}

TensorComparison compare_deepseek_tensors(const Checkpoint& checkpoint,
                                          const DeepseekConfig& config) {
  return Checker(checkpoint, config).run();
}

}  // namespace fathom
