// The weights of a Qwen2, Llama or Qwen3 model, as stored or made smaller while loading.
#pragma once

#include <optional>
#include <vector>

#include "base/cancel.h"
#include "base/threads.h"
#include "checkpoint/census.h"
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

struct DenseChoice {
  VocabularyChoice vocabulary;
  std::optional<WeightFormat> layers;  // what the layers' matrices are made; as stored without
};

// Reads all of it into memory. Tensors were checked before. Error(input) where a matrix is stored
// in another format of 8 bits or fewer than the one that is chosen.
DenseWeights load_dense_weights(const Checkpoint& checkpoint, const DenseConfig& config,
                                const DenseChoice& choice, ThreadPool& pool,
                                const CancelToken* cancel);

// What the layers' matrices will take in memory beyond what they take in the files.
int64_t added_layer_bytes(const Checkpoint& checkpoint, const DenseConfig& config, Part part,
                          WeightFormat format);

}  // namespace fathom
