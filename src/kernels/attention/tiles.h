// Attention's kernels for any instruction set: include after one of the vector_*.h.
#pragma once

#include "kernels/activation/vector_exp.h"
#include "kernels/attention/attention.h"
#include "kernels/combine/decode_values.h"

namespace fathom {
namespace {

void load_int8_row(int64_t latent, int64_t rope, const std::byte* from, float* to) {
  float scales[2];
  __builtin_memcpy(scales, from, sizeof scales);
  const auto part = [](const std::byte* bytes, int64_t count, float scale, float* values) {
    const Vector::Reg s = Vector::set1(scale);
    decode_values<1>(bytes, count, values, [s](const std::byte* b, Vector::Reg* out) {
      Vector::decode_int8(b, out);
      for (int i = 0; i < Vector::kParts; ++i) out[i] = Vector::mul(out[i], s);
    });
  };
  part(from + 8, latent, scales[0], to);
  part(from + 8 + latent, rope, scales[1], to + latent);
}

void load_rows(const KvRowLayout& layout, const std::byte* from, int64_t count, float* to,
               int64_t stride) {
  const int64_t width = layout.latent + layout.rope;
  const int64_t values = layout.heads * width;
  for (int64_t p = 0; p < count; ++p) {
    switch (layout.format) {
      case KvFormat::f32:
        __builtin_memcpy(to, from, static_cast<size_t>(width) * 4);
        from += values * 4;
        break;
      case KvFormat::bf16:
        decode_values<2>(from, width, to,
                         [](const std::byte* b, Vector::Reg* v) { Vector::decode_bf16(b, v); });
        from += values * 2;
        break;
      case KvFormat::int8:
        load_int8_row(layout.latent, layout.rope, from, to);
        from += values + layout.heads * 8;
        break;
    }
    to += stride;
  }
}

// Q queries at i by kDotRows cached rows at j, one register of the 16 lanes after the other. Of the
// rows beyond the last one, the last is taken once more and the result dropped.
template <int Q>
void dot_tile(const DotTile& t, int64_t i, int64_t j) {
  using Reg = Vector::Reg;
  constexpr int W = Vector::kDotRows;
  const int64_t some = t.rows - j < W ? t.rows - j : W;
  const float* w[W];
  for (int b = 0; b < W; ++b) w[b] = t.w + (j + (b < some ? b : some - 1)) * t.w_stride;
  const float* q[Q];
  for (int a = 0; a < Q; ++a) q[a] = t.q + (i + a) * t.q_stride;
  Reg all[Vector::kParts * Q * W];
  for (int part = 0; part < Vector::kParts; ++part) {
    Reg acc[Q][W];
    for (int a = 0; a < Q; ++a) {
      for (int b = 0; b < W; ++b) acc[a][b] = Vector::zero();
    }
    for (int64_t k = part * Vector::kLanes; k < t.width; k += 16) {
      Reg query[Q];
      for (int a = 0; a < Q; ++a) query[a] = Vector::load(q[a] + k);
      for (int b = 0; b < W; ++b) {
        Reg row = Vector::load(w[b] + k);
        Vector::keep(row);
        for (int a = 0; a < Q; ++a) acc[a][b] = Vector::fma(row, query[a], acc[a][b]);
      }
    }
    for (int a = 0; a < Q; ++a) {
      for (int b = 0; b < W; ++b) all[(part * Q + a) * W + b] = acc[a][b];
    }
  }
  float scores[Vector::kDotQueries * W];
  Vector::reduce<Q>(all, t.scale, scores);
  for (int a = 0; a < Q; ++a) {
    float* out = t.out + (i + a) * t.out_stride + j;
    if (some == W) {
      __builtin_memcpy(out, scores + a * W, W * sizeof(float));
    } else {
      for (int64_t b = 0; b < some; ++b) out[b] = scores[a * W + b];
    }
  }
}

template <int Q>
void dot_queries(const DotTile& t, int64_t i, int64_t j) {
  if constexpr (Q > 1) {
    if (t.n - i < Q) return dot_queries<Q - 1>(t, i, j);
  }
  dot_tile<Q>(t, i, j);
}

// A few cached rows stay in the first-level cache while all queries pass.
void dots(const DotTile& t) {
  for (int64_t j = 0; j < t.rows; j += Vector::kDotRows) {
    for (int64_t i = 0; i < t.n; i += Vector::kDotQueries) {
      dot_queries<Vector::kDotQueries>(t, i, j);
    }
  }
}

void softmax(float* e, int64_t begin, int64_t end, SoftmaxState& state) {
  using Reg = Vector::Reg;
  constexpr float kInf = __builtin_inff();
  constexpr int kRegs = kAttentionBlock / Vector::kLanes;
  // What is not seen counts as minus infinity, of which the exponential is exactly 0.
  for (int64_t p = 0; p < begin; ++p) e[p] = -kInf;
  for (int64_t p = end; p < kAttentionBlock; ++p) e[p] = -kInf;
  Reg v[kRegs];
  Reg largest = Vector::set1(state.max);
  for (int i = 0; i < kRegs; ++i) {
    v[i] = Vector::load(e + i * Vector::kLanes);
    largest = Vector::max(v[i], largest);
  }
  const float max = Vector::largest(largest);
  const float base = max == -kInf ? 0.0f : max;
  Reg sum[Vector::kParts];
  for (int i = 0; i < kRegs; ++i) {
    v[i] = vector_exp(Vector::sub(v[i], Vector::set1(base)));
    Vector::store(e + i * Vector::kLanes, v[i]);
    Reg& lane = sum[i % Vector::kParts];
    lane = i < Vector::kParts ? v[i] : Vector::add(lane, v[i]);
  }
  state.factor = Vector::first(vector_exp(Vector::set1(state.max - base)));
  state.sum = state.sum * state.factor + Vector::tree16(sum);
  state.max = max;
}

}  // namespace
}  // namespace fathom
