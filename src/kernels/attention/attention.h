// Attention over cached rows, as the cache stores them: latents (MLA) or keys and values (GQA).
//
// The cache holds, for a position, kv_lora_rank latents and qk_rope_head_dim rotated key values
// side by side (width = their sum), in one of three formats. Queries are absorbed: a head's query
// is its kv_lora_rank folded values and its rope values, so the score is one dot product over
// width, and the output is the weighted sum of the latent part.
//
// With grouped queries (GQA) a position holds such a pair for each key-value head: the head's
// value in the place of the latents (it is what is summed), its rotated key in the place of the
// rope values. Query head h reads pair h / (heads / layout.heads), and its score is the dot product
// with the key alone.
//
// The canonical order. Positions are walked in blocks of kAttentionBlock counted from position 0
// (one cache page = one block). In a block: score[p] = dot(q, row p) in the order of linear() for
// f32, times softmax_scale (one rounding); m' = max(m, scores); c = exp(m - m'); probabilities
// e[p] = exp(score[p] - m'); l = l * c + tree16(e), where e is padded with zeros to 64 and lane
// k mod 16 sums ascending by plain addition, then linear()'s tree; o = o * c, then
// o += e[p] * latent[p] in ascending p as combine() does. At the end o / l. exp is exp_f32.
// Rows past a query's own position take no part at all, so a result does not depend on what else
// the page holds or on how the prompt was cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/span2d.h"
#include "kernels/context.h"

namespace fathom {

enum class KvFormat : uint8_t { f32, bf16, int8 };

constexpr int64_t kAttentionBlock = 64;

// A cached position: `heads` times `latent` values and then `rope` values.
// int8: two F32 scales (latent part, rope part; absmax / 127) before each head's bytes.
struct KvRowLayout {
  KvFormat format = KvFormat::bf16;
  int64_t latent = 0;                              // kv_lora_rank; GQA: head_dim of the value
  int64_t rope = 0;                                // qk_rope_head_dim; GQA: head_dim of the key
  int64_t heads = 1;                               // num_key_value_heads
  int64_t width() const { return latent + rope; }  // of one head
  int64_t bytes() const { return heads * head_bytes(); }
  int64_t head_bytes() const {
    switch (format) {
      case KvFormat::f32:
        return width() * 4;
      case KvFormat::bf16:
        return width() * 2;
      case KvFormat::int8:
        return width() + 8;
    }
    return 0;
  }
};

// Stores one head of a position (width floats) at `to`, rounded to the format: nearest even (int8:
// value / scale, nearest even, clamped to +-127; an all-zero part has scale 0).
void store_kv_row(const KvRowLayout& layout, const float* values, std::byte* to);
// The stored values again, as every attention sees them.
void load_kv_row(const KvRowLayout& layout, const std::byte* from, float* values);

// Queries of one sequence. Row i belongs to position positions[i / heads] and head i % heads.
struct LatentAttention {
  KvRowLayout layout;
  bool keys_apart = false;  // GQA: scores are over the rope part alone
  float softmax_scale = 1;
  int64_t heads = 0;                   // of queries; a multiple of layout.heads
  Span2d<const float> q;               // [tokens * heads, query_width()]
  std::span<const int64_t> positions;  // [tokens], in cache positions: token i sees 0..positions[i]
  std::span<const int64_t> first;      // [tokens] first position seen (left padding), or empty: 0
  // blocks[b] is where position b * kAttentionBlock lies; rows follow each other by layout.bytes().
  std::span<const std::byte* const> blocks;
  Span2d<float> out;  // [tokens * heads, latent]
  int64_t query_width() const { return keys_apart ? layout.rope : layout.width(); }
};

void latent_attention(const KernelContext& context, const LatentAttention& a);

// The probabilities of the same computation, for people who want to look at them:
// probabilities[token * heads + head][position], zero where nothing is seen; cols >= highest
// position + 1. Slow.
void attention_probabilities(const KernelContext& context, const LatentAttention& a,
                             Span2d<float> probabilities);

// out[i][j] = dot(q[i], w[j]) * scale, the dot in the order of linear() for f32. width is a
// multiple of 16.
struct DotTile {
  const float* q = nullptr;  // [n, width]
  int64_t q_stride = 0;
  const float* w = nullptr;  // [rows, width]
  int64_t w_stride = 0;
  float* out = nullptr;  // [n, rows]
  int64_t out_stride = 0;
  int64_t n = 0;
  int64_t rows = 0;
  int64_t width = 0;
  float scale = 1;
};

// The running softmax of one query.
struct SoftmaxState {
  float max = 0;     // m; minus infinity at first
  float sum = 0;     // l
  float factor = 0;  // c of the last block
};

struct AttentionKernels {
  // load_kv_row for one head of `count` positions that follow each other, layout.bytes() apart;
  // row p goes to `to` + p * stride.
  void (*load_rows)(const KvRowLayout& layout, const std::byte* from, int64_t count, float* to,
                    int64_t stride);
  void (*dots)(const DotTile& tile);
  // One block: the scores at [begin, end) of e[kAttentionBlock] become e^(score - m'), the rest of
  // e zero. Where m' is minus infinity, 0 takes its place, so that no difference is undefined.
  void (*softmax)(float* e, int64_t begin, int64_t end, SoftmaxState& state);
};
extern const AttentionKernels attention_reference, attention_avx2, attention_avx512, attention_neon;

}  // namespace fathom
