// The weights of a DeepseekV3 model, as stored, without its routed experts (experts/ has those).
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "experts/gated_mlp.h"
#include "kernels/weight_view.h"
#include "model/vocabulary_weights.h"

namespace fathom {

// Shapes in config.json's names. Pointers without a tensor behind them are null, views empty.
struct AttentionWeights {
  WeightView q_proj;                // [heads * qk_head_dim, hidden]; only where q_lora_rank is null
  WeightView q_a_proj;              // [q_lora_rank, hidden]
  const float* q_a_bias = nullptr;  // [q_lora_rank], attention_bias
  const float* q_a_layernorm = nullptr;  // [q_lora_rank]
  WeightView q_b_proj;                   // [heads * qk_head_dim, q_lora_rank]
  WeightView kv_a_proj_with_mqa;         // [kv_lora_rank + qk_rope_head_dim, hidden]
  const float* kv_a_bias = nullptr;
  const float* kv_a_layernorm = nullptr;  // [kv_lora_rank]
  WeightView kv_b_proj;  // per head qk_nope_head_dim key rows, then v_head_dim value rows
  WeightView o_proj;     // [hidden, heads * v_head_dim]
  const float* o_bias = nullptr;
};

struct LayerWeights {
  const float* input_layernorm = nullptr;           // [hidden]
  const float* post_attention_layernorm = nullptr;  // [hidden]
  AttentionWeights attention;
  bool moe = false;
  GatedMlp dense_mlp;                              // where not moe
  WeightView router;                               // [n_routed_experts, hidden]
  const float* e_score_correction_bias = nullptr;  // [n_routed_experts]
  GatedMlp shared_experts;                         // empty where n_shared_experts is 0
};

// The multi-token-prediction layer: its decoder layer is layers[num_hidden_layers].
struct MtpWeights {
  const float* enorm = nullptr;
  const float* hnorm = nullptr;
  WeightView eh_proj;      // [hidden, 2 * hidden]
  Embedding embed_tokens;  // its own copy, or the main one
  const float* shared_head_norm = nullptr;
  WeightView shared_head;  // its own, or the main one
};

struct DeepseekWeights {
  Embedding embed_tokens;            // [vocab, hidden]
  std::vector<LayerWeights> layers;  // num_hidden_layers, and one more where MTP is loaded
  const float* norm = nullptr;       // [hidden]
  WeightView lm_head;                // [vocab, hidden]
  bool has_mtp = false;
  MtpWeights mtp;

  std::vector<std::vector<GatedMlp>> routed_experts;  // [layer][expert], where they are in memory
  WeightMemory memory;
};

// The MTP layer comes with copies of embedding and head, which need not differ from the main ones.
struct MtpCopies {
  bool own_embedding = false;  // taken instead of the main one
  bool own_head = false;
};
enum class MtpCopy { embedding, head };
bool has_mtp_copy(const Checkpoint& checkpoint, const DeepseekConfig& config, MtpCopy which);
// True where there is such a copy and its bytes differ from the main tensor's; both are read as far
// as they are the same.
bool mtp_copy_differs(const Checkpoint& checkpoint, const DeepseekConfig& config, MtpCopy which,
                      const CancelToken* cancel);

struct WeightChoice {
  bool mtp = false;
  MtpCopies mtp_copies;
  bool routed_experts = true;   // into memory
  VocabularyChoice vocabulary;  // of the MTP layer's own copies too
};
// Reads the chosen weights into memory. Tensors were checked before.
DeepseekWeights load_deepseek_weights(const Checkpoint& checkpoint, const DeepseekConfig& config,
                                      const WeightChoice& choice, ThreadPool& pool,
                                      const CancelToken* cancel);
// True where the head is the embedding.
bool has_tied_head(const Checkpoint& checkpoint, const DeepseekConfig& config);

}  // namespace fathom
