#include "model/deepseek/weights.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/deepseek_tensors.h"

namespace fathom {
namespace {

constexpr std::string_view kMtpEmbedding = "embed_tokens.weight";
constexpr std::string_view kMtpHead = "shared_head.head.weight";

GatedMlp gated_mlp_of(WeightLoader& loader, const std::string& prefix, int64_t hidden,
                      int64_t intermediate) {
  return {loader.matrix(prefix + ".gate_proj.weight", hidden),
          loader.matrix(prefix + ".up_proj.weight", hidden),
          loader.matrix(prefix + ".down_proj.weight", intermediate)};
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
    w.dense_mlp = gated_mlp_of(loader, names::layer(layer, "mlp"), config.hidden_size,
                               config.intermediate_size);
    return w;
  }
  w.router = loader.matrix(names::layer(layer, "mlp.gate.weight"));
  w.e_score_correction_bias =
      loader.vector(names::layer(layer, "mlp.gate.e_score_correction_bias"));
  if (config.n_shared_experts > 0) {
    w.shared_experts =
        gated_mlp_of(loader, names::layer(layer, "mlp.shared_experts"), config.hidden_size,
                     config.n_shared_experts * config.moe_intermediate_size);
  }
  return w;
}

MtpWeights mtp_of(WeightLoader& loader, const Checkpoint& checkpoint, int64_t layer,
                  const WeightChoice& choice, const DeepseekWeights& main) {
  const VocabularyChoice& vocabulary = choice.vocabulary;
  MtpWeights mtp;
  mtp.enorm = loader.vector(names::layer(layer, "enorm.weight"));
  mtp.hnorm = loader.vector(names::layer(layer, "hnorm.weight"));
  mtp.eh_proj = loader.matrix(names::layer(layer, "eh_proj.weight"));
  mtp.shared_head_norm = loader.vector(names::layer(layer, "shared_head.norm.weight"));
  mtp.embed_tokens =
      choice.mtp_copies.own_embedding
          ? load_embedding(loader, checkpoint, names::layer(layer, kMtpEmbedding), vocabulary)
          : main.embed_tokens;
  mtp.shared_head = choice.mtp_copies.own_head
                        ? load_head(loader, names::layer(layer, kMtpHead), vocabulary)
                        : main.lm_head;
  return mtp;
}

// True where both tensors have the same shape, format and bytes.
bool same_tensor(const Checkpoint& checkpoint, const TensorInfo& a, const TensorInfo& b,
                 const CancelToken* cancel) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  std::vector<std::byte> first(kPieceBytes);
  std::vector<std::byte> second(kPieceBytes);
  for (uint64_t at = 0; at < a.bytes; at += kPieceBytes) {
    if (cancel != nullptr) cancel->throw_if_cancelled();
    const uint64_t count = std::min(kPieceBytes, a.bytes - at);
    checkpoint.read(a, at, std::span(first).first(count));
    checkpoint.read(b, at, std::span(second).first(count));
    if (std::memcmp(first.data(), second.data(), count) != 0) return false;
  }
  return true;
}

const TensorInfo* find_mtp_copy(const Checkpoint& checkpoint, const DeepseekConfig& config,
                                MtpCopy which) {
  const std::string_view name = which == MtpCopy::embedding ? kMtpEmbedding : kMtpHead;
  return checkpoint.find(names::layer(config.num_hidden_layers, name));
}

}  // namespace

bool has_tied_head(const Checkpoint& checkpoint, const DeepseekConfig& config) {
  return config.tie_word_embeddings || checkpoint.find(names::kHead) == nullptr;
}

bool has_mtp_copy(const Checkpoint& checkpoint, const DeepseekConfig& config, MtpCopy which) {
  return find_mtp_copy(checkpoint, config, which) != nullptr;
}

bool mtp_copy_differs(const Checkpoint& checkpoint, const DeepseekConfig& config, MtpCopy which,
                      const CancelToken* cancel) {
  const TensorInfo* own = find_mtp_copy(checkpoint, config, which);
  const bool embedding = which == MtpCopy::embedding || has_tied_head(checkpoint, config);
  const std::string_view main = embedding ? names::kEmbedding : names::kHead;
  return own != nullptr && !same_tensor(checkpoint, *own, *checkpoint.find(main), cancel);
}

DeepseekWeights load_deepseek_weights(const Checkpoint& checkpoint, const DeepseekConfig& config,
                                      const WeightChoice& choice, ThreadPool& pool,
                                      const CancelToken* cancel) {
  WeightLoader loader(checkpoint, config.weight_block_rows, config.weight_block_cols);
  DeepseekWeights weights;
  weights.norm = loader.vector(std::string(names::kFinalNorm));
  VocabularyWeights vocabulary =
      load_vocabulary(loader, checkpoint, has_tied_head(checkpoint, config), choice.vocabulary);
  weights.embed_tokens = std::move(vocabulary.embed_tokens);
  weights.lm_head = vocabulary.lm_head;

  const int64_t layers = config.num_hidden_layers + (choice.mtp ? 1 : 0);
  weights.routed_experts.resize(static_cast<size_t>(layers));
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (cancel != nullptr)
      cancel->throw_if_cancelled();  // memory is cleared here, which takes time
    weights.layers.push_back(layer_of(loader, config, layer));
    if (!weights.layers.back().moe || !choice.routed_experts) continue;
    for (int64_t expert = 0; expert < config.n_routed_experts; ++expert) {
      weights.routed_experts[static_cast<size_t>(layer)].push_back(
          gated_mlp_of(loader, names::layer(layer, "mlp.experts." + std::to_string(expert)),
                       config.hidden_size, config.moe_intermediate_size));
    }
  }
  if (choice.mtp) {
    weights.has_mtp = true;
    weights.mtp = mtp_of(loader, checkpoint, config.num_hidden_layers, choice, weights);
  }
  loader.load(pool, "loading", cancel);
  weights.memory = loader.take_memory();
  return weights;
}

}  // namespace fathom
