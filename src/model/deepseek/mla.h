// Multi-head latent attention, absorbed: the cache holds latents, and the projections that would
// rebuild keys and values from them are folded into the query and the output.
#pragma once

#include <span>

#include "checkpoint/hf_config.h"
#include "kernels/attention/attention.h"
#include "kernels/combine/combine.h"
#include "kernels/context.h"
#include "model/deepseek/rope.h"
#include "model/deepseek/weights.h"
#include "model/sweep.h"

namespace fathom {

class Mla {
 public:
  Mla(const DeepseekConfig& config, const KernelContext& context);

  // Grows the scratch to `rows` rows of sequences of at most `pages` pages; the only allocation.
  void reserve(int64_t rows, int64_t pages);

  // hidden[i] += attention(normed[i]) for the given rows (of one sweep, sequences together). Caches
  // every row's latent and rotated key first. Where `probabilities` is not null (rows of a single
  // sequence), it also receives them: [rows * heads, positions].
  void forward(const AttentionWeights& w, int64_t layer, std::span<const SweepRow> rows,
               Span2d<const float> normed, Span2d<float> hidden, Span2d<float>* probabilities);

  const Rope& rope() const { return rope_; }

 private:
  Span2d<float> queries(const AttentionWeights& w, Span2d<const float> normed);
  void cache_rows(const AttentionWeights& w, int64_t layer, std::span<const SweepRow> rows,
                  Span2d<const float> normed);
  void absorb_queries(const AttentionWeights& w, Span2d<const float> q);
  void attend(int64_t layer, std::span<const SweepRow> rows, int64_t first,
              Span2d<float>* probabilities);

  DeepseekConfig config_;
  const KernelContext* context_;
  Rope rope_;
  int64_t heads_;
  int64_t latent_;
  int64_t rope_dim_;
  int64_t nope_;
  int64_t value_;

  Matrix q_a_;                            // [rows, q_lora_rank]
  Matrix q_;                              // [rows, heads * qk_head_dim]
  Matrix kv_;                             // [rows, kv_lora_rank + qk_rope_head_dim]
  Matrix cache_row_;                      // the same, normed and rotated
  Matrix angles_;                         // [rows, qk_rope_head_dim]
  Matrix absorbed_;                       // [rows * heads, kv_lora_rank + qk_rope_head_dim]
  Matrix summed_;                         // [rows * heads, kv_lora_rank]
  Matrix values_;                         // [rows, heads * v_head_dim]
  Matrix out_;                            // [rows, hidden]
  std::vector<HeadProduct> products_;     // [heads]
  std::vector<const std::byte*> blocks_;  // [pages]
  std::vector<int64_t> positions_;        // [rows]
};

}  // namespace fathom
