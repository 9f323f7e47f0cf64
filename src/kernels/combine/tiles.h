// combine()'s kernels for any instruction set: include after one of the vector_*.h. Everything has
// internal linkage, so that no other file can end up with code for this instruction set.
#pragma once

#include "kernels/combine/combine.h"
#include "kernels/combine/decode_values.h"

namespace fathom {
namespace {

void decode(WeightFormat format, const std::byte* from, int64_t count, float* to) {
  switch (format) {
    case WeightFormat::f32:
      __builtin_memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      break;
    case WeightFormat::bf16:
      decode_values<2>(from, count, to,
                       [](const std::byte* b, Vector::Reg* v) { Vector::decode_bf16(b, v); });
      break;
    case WeightFormat::f16:
      decode_values<2>(from, count, to,
                       [](const std::byte* b, Vector::Reg* v) { Vector::decode_f16(b, v); });
      break;
    case WeightFormat::fp8_block:
      decode_values<1>(from, count, to,
                       [](const std::byte* b, Vector::Reg* v) { Vector::decode_fp8(b, v); });
      break;
    case WeightFormat::int8_row:
      decode_values<1>(from, count, to,
                       [](const std::byte* b, Vector::Reg* v) { Vector::decode_int8(b, v); });
      break;
    case WeightFormat::int4:
    case WeightFormat::int3:
    case WeightFormat::int2:
      break;  // never asked for
  }
}

// R rows of y by C registers at (i, c). kSome: one register, of which `some` lanes are meant.
template <int R, int C, bool kSome>
void update_tile(const UpdateTile& t, int64_t i, int64_t c, int64_t some) {
  using Reg = Vector::Reg;
  const auto load = [&](const float* from) {
    if constexpr (kSome) return Vector::load_some(from, some);
    return Vector::load(from);
  };
  Reg acc[R][C];
  for (int a = 0; a < R; ++a) {
    for (int b = 0; b < C; ++b) {
      const float* y = t.y + (i + a) * t.y_stride + c + b * Vector::kLanes;
      acc[a][b] = t.accumulate ? load(y) : Vector::zero();
      if (t.factor != nullptr) acc[a][b] = Vector::mul(acc[a][b], Vector::set1(t.factor[i + a]));
    }
  }
  const float* w = t.w + c;
  const float* p = t.p + i * t.p_stride;
  for (int64_t r = 0; r < t.rows; ++r, w += t.w_stride, ++p) {
    Reg row[C];
    for (int b = 0; b < C; ++b) {
      row[b] = load(w + b * Vector::kLanes);
      if constexpr (R > 1) Vector::keep(row[b]);
    }
    for (int a = 0; a < R; ++a) {
      Reg weight = Vector::set1(p[a * t.p_stride]);
      if constexpr (C > 1) Vector::keep(weight);
      for (int b = 0; b < C; ++b) acc[a][b] = Vector::fma(weight, row[b], acc[a][b]);
    }
  }
  for (int a = 0; a < R; ++a) {
    for (int b = 0; b < C; ++b) {
      float* y = t.y + (i + a) * t.y_stride + c + b * Vector::kLanes;
      if constexpr (kSome) {
        Vector::store_some(y, acc[a][b], some);
      } else {
        Vector::store(y, acc[a][b]);
      }
    }
  }
}

template <int R, int C, bool kSome>
void update_rows(const UpdateTile& t, int64_t i, int64_t c, int64_t some) {
  if constexpr (R > 1) {
    if (t.n - i < R) return update_rows<R - 1, C, kSome>(t, i, c, some);
  }
  update_tile<R, C, kSome>(t, i, c, some);
}

template <int C, bool kSome>
void update_cols(const UpdateTile& t, int64_t c, int64_t some) {
  for (int64_t i = 0; i < t.n; i += Vector::kUpdateRows) {
    update_rows<Vector::kUpdateRows, C, kSome>(t, i, c, some);
  }
}

void update(const UpdateTile& t) {
  constexpr int64_t kLanes = Vector::kLanes;
  constexpr int64_t kWide = 8;  // registers for a single row, to cover the latency
  int64_t c = 0;
  if (t.n == 1) {
    for (; c + kWide * kLanes <= t.cols; c += kWide * kLanes)
      update_tile<1, kWide, false>(t, 0, c, 0);
  }
  for (; c + Vector::kUpdateCols * kLanes <= t.cols; c += Vector::kUpdateCols * kLanes) {
    update_cols<Vector::kUpdateCols, false>(t, c, 0);
  }
  for (; c + kLanes <= t.cols; c += kLanes) update_cols<1, false>(t, c, 0);
  if (c < t.cols) update_cols<1, true>(t, c, t.cols - c);
}

}  // namespace
}  // namespace fathom
