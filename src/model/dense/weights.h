// The weights of a Qwen2, Llama or Qwen3 model, as stored.
#pragma once

#include <vector>

#include "base/cancel.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dense_config.h"
#include "experts/gated_mlp.h"
#include "model/vocabulary_weights.h"

namespace fathom {

// Shapes in config.json's names. Pointers without a tensor behind them are null.
struct DenseLayerWeights {
  const float* input_layernorm = nullptr;  // [hidden]
  WeightView q_proj;                       // [heads * head_dim, hidden]
  WeightView k_proj;                       // [kv_heads * head_dim, hidden]
  WeightView v_proj;                       // the same
  WeightView o_proj;                       // [hidden, heads * head_dim]
  const float* q_bias = nullptr;           // of the projections' rows
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* o_bias = nullptr;
  const float* q_norm = nullptr;                    // [head_dim], Qwen3
  const float* k_norm = nullptr;                    // [head_dim]
  const float* post_attention_layernorm = nullptr;  // [hidden]
  GatedMlp mlp;
};

struct DenseWeights {
  VocabularyWeights vocabulary;
  std::vector<DenseLayerWeights> layers;
  const float* norm = nullptr;  // [hidden]
  WeightMemory memory;
};

// Reads all of it into memory. Tensors were checked before.
DenseWeights load_dense_weights(const Checkpoint& checkpoint, const DenseConfig& config,
                                const VocabularyChoice& choice, ThreadPool& pool,
                                const CancelToken* cancel);

}  // namespace fathom
