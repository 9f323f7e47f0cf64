// Rows of weights and of activations, brought into the form in which they are multiplied; written
// once over the vector operations of an instruction set (see blocked.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/linear.h"

namespace fathom {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kGroup = 4;  // weight rows that are worked together

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t pad16(int64_t k) { return (k + 15) & ~int64_t{15}; }

float load_scale(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <WeightFormat F>
constexpr int64_t kBytes = F == WeightFormat::f32         ? 4
                           : F == WeightFormat::fp8_block ? 1
                                                          : 2;

// Calls f(element, at) for `count` (a multiple of 16 after padding) weights of a row: whole
// registers from the row itself, the rest from a zeroed copy, so that nothing past the row is read.
struct TailCopy {
  alignas(64) std::byte bytes[64 * 4];
  TailCopy(const std::byte* from, int64_t size) {
    std::memset(bytes, 0, sizeof bytes);
    std::memcpy(bytes, from, static_cast<size_t>(size));
  }
};

// Weight rows [first, first + rows) of the view and n rows of x; the weight rows share their
// scales.
struct Job {
  const WeightView* w;
  const float* x;
  int64_t x_stride;
  int64_t n;
  float* y;  // of weight row `first`
  int64_t y_stride;
  int64_t first;
  int64_t rows;
  const std::byte* scales;
};

// Row r of the job; past its end the last one.
template <WeightFormat F>
const std::byte* row_at(const Job& job, int64_t r) {
  return job.w->data + (job.first + least(r, job.rows - 1)) * job.w->cols * kBytes<F>;
}

template <typename Isa>
struct Rows {
  using Reg = typename Isa::Reg;
  static constexpr int kParts = Isa::kParts;
  static constexpr int kWidth = 16 / kParts;

  // `count` weights to floats, zero-padded to a multiple of 16; 16 and the next 16 lie `step`
  // apart.
  template <WeightFormat F>
  static void decode_row(const typename Isa::Constants& constants, const std::byte* from,
                         int64_t count, float* to, int64_t step) {
    int64_t k = 0;
    for (; k + 64 <= count; k += 64) {
      Reg out[4 * kParts];
      Isa::template decode<F>(constants, from + k * kBytes<F>, out);
      for (int i = 0; i < 4; ++i) {
        for (int part = 0; part < kParts; ++part) {
          Isa::store(to + i * step + part * kWidth, out[i * kParts + part]);
        }
      }
      to += 4 * step;
    }
    if (k == count) return;
    const TailCopy tail(from + k * kBytes<F>, (count - k) * kBytes<F>);
    for (int64_t i = 0; k + i < count; i += 16) {
      Reg out[kParts];
      Isa::template decode16<F>(tail.bytes + i * kBytes<F>, out);
      for (int part = 0; part < kParts; ++part) Isa::store(to + part * kWidth, out[part]);
      to += step;
    }
  }

  // x[k0 .. k0 + count) times its blocks' scales, zero-padded to a multiple of 16; 16 and the next
  // 16 lie `step` apart. `scales` is null for formats without scales, else the row of the grid.
  static void pack_row(const float* x, int64_t k0, int64_t count, const std::byte* scales,
                       int64_t block_cols, float* to, int64_t step) {
    x += k0;
    int64_t k = 0;
    for (int64_t block = k0 / block_cols; k < count; ++block) {
      const int64_t end = scales ? least(count, (block + 1) * block_cols - k0) : count;
      const float scale = scales ? load_scale(scales + block * 4) * 256.0f : 1.0f;
      // A scale that begins or ends within 16 columns, and the row's end, are taken one by one.
      for (; k % 16 != 0 && k < end; ++k) to[k / 16 * step + k % 16] = x[k] * scale;
      float* lanes = to + k / 16 * step;
      for (; k + 16 <= end; k += 16) {
        for (int part = 0; part < kParts; ++part) {
          Isa::store(lanes + part * kWidth, Isa::load_scaled(x + k + part * kWidth, scale));
        }
        lanes += step;
      }
      for (; k < end; ++k) to[k / 16 * step + k % 16] = x[k] * scale;
    }
    for (; k < pad16(count); ++k) to[k / 16 * step + k % 16] = 0;
  }
};

}  // namespace
}  // namespace fathom
