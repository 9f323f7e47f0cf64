// int4, int3 and int2 for blocked.h: tables for the instruction sets, and the loops over blocks of
// 128 columns. Internal linkage throughout, as in blocked.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/blocked_parts.h"
#include "kernels/weight_view.h"

namespace fathom {
namespace {

// Levels by code, repeated to 16 entries: where a code is looked up together with bits of its
// neighbours, they do not matter.
template <int kBits>
struct LevelsByCode {
  alignas(64) float value[16];
  alignas(16) int8_t level[16];
};
template <int kBits>
constexpr LevelsByCode<kBits> levels_by_code() {
  LevelsByCode<kBits> table = {};
  constexpr uint32_t kSign = 1u << (kBits - 1);
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t code = i & (2 * kSign - 1);
    const int magnitude = LevelTable<kBits>::kMagnitudes[code & (kSign - 1)];
    const int level = (code & kSign) != 0 ? -magnitude : magnitude;
    table.value[i] = static_cast<float>(level);
    table.level[i] = static_cast<int8_t>(level);
  }
  return table;
}
template <int kBits>
constexpr LevelsByCode<kBits> kLevels = levels_by_code<kBits>();

// BF16 scales to float.
inline void widen_scales(const std::byte* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * 2, sizeof bits);
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    std::memcpy(to + i, &wide, sizeof wide);
  }
}

// What Isa::LevelBlock<kBits> offers: made from a block and its two scales, get<J>(out) gives
// columns 16 J .. 16 J + 15 as kParts vectors.
template <typename Isa, WeightFormat F>
struct Levels {
  using Reg = typename Isa::Reg;
  static constexpr int kParts = Isa::kParts;
  static constexpr int kWidth = 16 / kParts;
  static constexpr int kBits = level_bits(F);
  static constexpr int64_t kBlockBytes = 16 * kBits;
  using Block = typename Isa::template LevelBlock<kBits>;
  static constexpr int64_t kSteps = kLevelBlock / 16;

  // use(J, registers) for the first `steps` times 16 columns.
  template <int J = 0, typename Use>
  __attribute__((always_inline)) static void each_step(const Block& block, int64_t steps,
                                                       const Use& use) {
    if constexpr (J < kSteps) {
      if (J >= steps) return;
      Reg weights[kParts];
      block.template get<J>(weights);
      use(J, weights);
      each_step<J + 1>(block, steps, use);
    }
  }

  // Columns [0, count) from a block's beginning on to floats, to the next multiple of 16.
  static void decode(const std::byte* from, const std::byte* scales, int64_t count, float* to) {
    for (int64_t k = 0; k < count; k += kLevelBlock) {
      float factors[2];
      widen_scales(scales + k / kLevelGroup * 2, 2, factors);
      const Block block(from + k / kLevelBlock * kBlockBytes, factors);
      const auto put = [&](int step, const Reg* weights) __attribute__((always_inline)) {
        for (int part = 0; part < kParts; ++part) {
          Isa::store(to + k + step * 16 + part * kWidth, weights[part]);
        }
      };
      if (count - k >= kLevelBlock) {
        each_step(block, kSteps, put);
      } else {
        each_step(block, (count - k + 15) / 16, put);
      }
    }
  }

  // Rows of weights and of x that are multiplied without storing what is decoded.
  template <int G>
  struct Rows {
    const std::byte* const* codes;   // G rows
    const std::byte* const* scales;  // of each
    const float* x;                  // packed, x_row floats apart
    int64_t x_row;
    int64_t cols;
  };
  // acc[i][j] += weight row i times x row j.
  template <int N, int G>
  static void multiply(const Rows<G>& rows, Reg (&acc)[G][N][kParts]) {
    constexpr int64_t kScales = 16;  // widened at a time
    for (int64_t k0 = 0; k0 < rows.cols; k0 += kScales * kLevelGroup) {
      const int64_t rest = rows.cols - k0;
      const int64_t blocks =
          rest < kScales * kLevelGroup ? (rest + kLevelBlock - 1) / kLevelBlock : kScales / 2;
      alignas(64) float factors[G][kScales];
      for (int i = 0; i < G; ++i) {
        widen_scales(rows.scales[i] + k0 / kLevelGroup * 2, blocks * 2, factors[i]);
      }
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t k = k0 + b * kLevelBlock;
        Block blocks[G];
        for (int i = 0; i < G; ++i) {
          const std::byte* at = rows.codes[i] + k / kLevelBlock * kBlockBytes;
          Isa::prefetch_far(at + kStreamAhead);
          blocks[i] = Block(at, factors[i] + 2 * b);
        }
        const X x = {rows.x + k, rows.x_row};
        if (rows.cols - k >= kLevelBlock) {
          multiply_blocks<N, G>(blocks, x, kSteps, acc);
        } else {
          multiply_blocks<N, G>(blocks, x, (rows.cols - k + 15) / 16, acc);
        }
      }
    }
  }

 private:
  struct X {
    const float* at;
    int64_t row;  // floats to the next row
  };

  // Where registers suffice, all weight rows share what is loaded of x; else row by row.
  template <int N, int G>
  __attribute__((always_inline)) static void multiply_blocks(const Block (&blocks)[G], const X& x,
                                                             int64_t steps,
                                                             Reg (&acc)[G][N][kParts]) {
    if constexpr (N == 1 && kParts == 1) {
      multiply_steps<N, G>(blocks, x, steps, acc);
    } else {
      for (int i = 0; i < G; ++i) multiply_steps<N, 1>(blocks + i, x, steps, acc + i);
    }
  }

  template <int N, int G, int J = 0>
  __attribute__((always_inline)) static void multiply_steps(const Block* blocks, const X& x,
                                                            int64_t steps, Reg (*acc)[N][kParts]) {
    if constexpr (J < kSteps) {
      if (J >= steps) return;
      Reg values[N][kParts];
      for (int j = 0; j < N; ++j) {
        for (int part = 0; part < kParts; ++part) {
          values[j][part] = Isa::load(x.at + j * x.row + J * 16 + part * kWidth);
        }
      }
      for (int i = 0; i < G; ++i) {
        Reg weights[kParts];
        blocks[i].template get<J>(weights);
        for (int j = 0; j < N; ++j) {
          for (int part = 0; part < kParts; ++part) {
            acc[i][j][part] = Isa::fma(weights[part], values[j][part], acc[i][j][part]);
          }
        }
      }
      multiply_steps<N, G, J + 1>(blocks, x, steps, acc);
    }
  }
};

}  // namespace
}  // namespace fathom
