#include "model/deepseek/weights.h"

#include "checkpoint/deepseek_tensors.h"

namespace fathom {
namespace {

GatedMlp gated_mlp_of(WeightLoader& loader, const std::string& prefix) {
  return {loader.matrix(prefix + ".gate_proj.weight"), loader.matrix(prefix + ".up_proj.weight"),
          loader.matrix(prefix + ".down_proj.weight")};
}

AttentionWeights attention_of(WeightLoader& loader, const DeepseekConfig& config, int64_t layer) {
  const auto name = [layer](std::string_view rest) {
    return names::layer(layer, std::string("self_attn.") + std::string(rest));
  };
  AttentionWeights a;
  if (config.q_lora_rank) {
    a.q_a_proj = loader.matrix(name("q_a_proj.weight"));
    a.q_a_layernorm = loader.vector(name("q_a_layernorm.weight"));
    a.q_b_proj = loader.matrix(name("q_b_proj.weight"));
    if (config.attention_bias) a.q_a_bias = loader.vector(name("q_a_proj.bias"));
  } else {
    a.q_proj = loader.matrix(name("q_proj.weight"));
  }
  a.kv_a_proj_with_mqa = loader.matrix(name("kv_a_proj_with_mqa.weight"));
  a.kv_a_layernorm = loader.vector(name("kv_a_layernorm.weight"));
  a.kv_b_proj = loader.matrix(name("kv_b_proj.weight"));
  a.o_proj = loader.matrix(name("o_proj.weight"));
  if (config.attention_bias) {
    a.kv_a_bias = loader.vector(name("kv_a_proj_with_mqa.bias"));
    a.o_bias = loader.vector(name("o_proj.bias"));
  }
  return a;
}

LayerWeights layer_of(WeightLoader& loader, const DeepseekConfig& config, int64_t layer) {
  LayerWeights w;
  w.input_layernorm = loader.vector(names::layer(layer, "input_layernorm.weight"));
  w.post_attention_layernorm =
      loader.vector(names::layer(layer, "post_attention_layernorm.weight"));
  w.attention = attention_of(loader, config, layer);
  w.moe = config.is_moe_layer(layer);
  if (!w.moe) {
    w.dense_mlp = gated_mlp_of(loader, names::layer(layer, "mlp"));
    return w;
  }
  w.router = loader.matrix(names::layer(layer, "mlp.gate.weight"));
  w.e_score_correction_bias =
      loader.vector(names::layer(layer, "mlp.gate.e_score_correction_bias"));
  if (config.n_shared_experts > 0) {
    w.shared_experts = gated_mlp_of(loader, names::layer(layer, "mlp.shared_experts"));
  }
  return w;
}

MtpWeights mtp_of(WeightLoader& loader, const Checkpoint& checkpoint, int64_t layer,
                  const DeepseekWeights& main) {
  const auto own_or = [&](std::string_view rest, const WeightView& otherwise) {
    const std::string name = names::layer(layer, rest);
    return checkpoint.find(name) != nullptr ? loader.matrix(name) : otherwise;
  };
  MtpWeights mtp;
  mtp.enorm = loader.vector(names::layer(layer, "enorm.weight"));
  mtp.hnorm = loader.vector(names::layer(layer, "hnorm.weight"));
  mtp.eh_proj = loader.matrix(names::layer(layer, "eh_proj.weight"));
  mtp.embed_tokens = own_or("embed_tokens.weight", main.embed_tokens);
  mtp.shared_head_norm = loader.vector(names::layer(layer, "shared_head.norm.weight"));
  mtp.shared_head = own_or("shared_head.head.weight", main.lm_head);
  return mtp;
}

}  // namespace

DeepseekWeights load_deepseek_weights(const Checkpoint& checkpoint, const DeepseekConfig& config,
                                      bool with_mtp, ThreadPool& pool, const CancelToken* cancel) {
  WeightLoader loader(checkpoint, config.weight_block_rows, config.weight_block_cols);
  DeepseekWeights weights;
  weights.embed_tokens = loader.matrix(std::string(names::kEmbedding));
  weights.norm = loader.vector(std::string(names::kFinalNorm));
  const bool tied = config.tie_word_embeddings || checkpoint.find(names::kHead) == nullptr;
  weights.lm_head = tied ? weights.embed_tokens : loader.matrix(std::string(names::kHead));

  const int64_t layers = config.num_hidden_layers + (with_mtp ? 1 : 0);
  weights.routed_experts.resize(static_cast<size_t>(layers));
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (cancel != nullptr)
      cancel->throw_if_cancelled();  // memory is cleared here, which takes time
    weights.layers.push_back(layer_of(loader, config, layer));
    if (!weights.layers.back().moe) continue;
    for (int64_t expert = 0; expert < config.n_routed_experts; ++expert) {
      weights.routed_experts[static_cast<size_t>(layer)].push_back(
          gated_mlp_of(loader, names::layer(layer, "mlp.experts." + std::to_string(expert))));
    }
  }
  if (with_mtp) {
    weights.has_mtp = true;
    weights.mtp = mtp_of(loader, checkpoint, config.num_hidden_layers, weights);
  }
  loader.load(pool, "loading", cancel);
  weights.memory = loader.take_memory();
  return weights;
}

uint64_t deepseek_weight_bytes(const Checkpoint& checkpoint, const DeepseekConfig& config,
                               bool with_mtp) {
  uint64_t bytes = 0;
  for (const ExpectedTensor& expected : expected_deepseek_tensors(config, with_mtp)) {
    if (const TensorInfo* tensor = checkpoint.find(expected.name)) bytes += tensor->bytes;
    const std::string scale = expected.name + std::string(names::kScaleSuffix);
    if (const TensorInfo* tensor = checkpoint.find(scale)) bytes += tensor->bytes;
  }
  return bytes;
}

}  // namespace fathom
