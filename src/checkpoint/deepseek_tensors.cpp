#include "checkpoint/deepseek_tensors.h"

#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace fathom {

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
    // Some exporters leave the copies of embedding and head out of the MTP layer.
    const bool copy = name == "embed_tokens.weight" || name == "shared_head.head.weight";
    const bool expert = name.starts_with("mlp.experts.");
    list_->push_back({names::layer(layer_, name), std::move(shape), quantised, mtp_, copy, expert});
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

class Comparer {
 public:
  Comparer(const Checkpoint& checkpoint, const DeepseekConfig& config)
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
    TensorChecker checker(checkpoint_, config_.weight_block_rows, config_.weight_block_cols);
    for (const ExpectedTensor& expected : expected_deepseek_tensors(config_, report.has_mtp)) {
      checker.check(expected);
    }
    report.unexpected = unexpected(checker);
    return {std::move(report), checker.take_problems()};
  }

 private:
  std::vector<std::string> unexpected(const TensorChecker& checker) const {
    const int64_t first_unused =
        config_.num_hidden_layers + (config_.num_nextn_predict_layers > 0 ? 1 : 0);
    std::unordered_set<int64_t> unused_mtp;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      const std::optional<int64_t> layer = names::layer_of(tensor.name);
      if (layer && *layer >= first_unused && only_mtp_has(tensor.name)) unused_mtp.insert(*layer);
    }
    std::vector<std::string> found;
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      if (checker.is_known(tensor.name)) continue;
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
  list.push_back({std::string(names::kHead), vocabulary, false, false, config.tie_word_embeddings});
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
  TensorComparison comparison = compare_deepseek_tensors(checkpoint, config);
  comparison.problems.fail_if_any(checkpoint.folder());
  warn_of_unexpected(checkpoint, comparison.report.unexpected);
  return std::move(comparison.report);
}

TensorComparison compare_deepseek_tensors(const Checkpoint& checkpoint,
                                          const DeepseekConfig& config) {
  return Comparer(checkpoint, config).run();
}

}  // namespace fathom
