// The blocked product, written once over the vector operations of an instruction set. Each
// instruction set's file includes this and instantiates Blocked<Isa>.
//
// Everything here has internal linkage and no function of another header is called: the including
// files are compiled for different processors, and a shared inline function could reach a processor
// that cannot run it.
//
// What an Isa offers:
//   Reg, kParts            a vector; 16 / kParts lanes, so kParts vectors hold the canonical 16
//   kTileX                 rows of x in a register tile of 4 weight rows
//   kVectors               up to as many rows of x, weights are multiplied as they are decoded
//   vector_rows(n)         weight rows (1, 2 or 4) that n rows of x are then multiplied with
//   together zero, load, store, fma prefetch, prefetch_far into the nearest and into the second
//   cache decode<F>(bytes, out)  64 weights of format F as 4 * kParts vectors, natural order
//   decode16<F>            16 weights as kParts vectors
//   LevelBlock<kBits>      a block of int4, int3 or int2 (level_block.h)
//   reduce(acc, out)       16 accumulators of 16 lanes to 16 sums, by the canonical tree
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/blocked_parts.h"
#include "kernels/linear/level_block.h"
#include "kernels/linear/linear.h"

namespace fathom {
namespace {

template <typename Isa>
struct Blocked {
  using Reg = typename Isa::Reg;
  static constexpr int kParts = Isa::kParts;
  static constexpr int kWidth = 16 / kParts;

  struct Scratch {
    float* packed;
    float* sums;
    float* decoded;
  };

  // `count` weights to floats, zero-padded to a multiple of 16. `scales` are the row's own.
  template <WeightFormat F>
  static void decode_row(const std::byte* from, const std::byte* scales, int64_t count, float* to) {
    if constexpr (level_bits(F) > 0) return Levels<Isa, F>::decode(from, scales, count, to);
    int64_t k = 0;
    for (; k + 64 <= count; k += 64) {
      Reg out[4 * kParts];
      Isa::template decode<F>(from + k * kBytes<F>, out);
      for (int i = 0; i < 4 * kParts; ++i) Isa::store(to + k + i * kWidth, out[i]);
    }
    if (k == count) return;
    const TailCopy tail(from + k * kBytes<F>, (count - k) * kBytes<F>);
    for (int64_t i = 0; k + i < count; i += 16) {
      Reg out[kParts];
      Isa::template decode16<F>(tail.bytes + i * kBytes<F>, out);
      for (int part = 0; part < kParts; ++part) Isa::store(to + k + i + part * kWidth, out[part]);
    }
  }

  // Decoded weight rows (`groups` of 4, kChunk floats apart) and n packed rows of x, for `count`
  // columns (a multiple of 16). sums[j][i] is x row j, weight row i; `fresh` sums begin at zero.
  struct Panel {
    const float* weights;
    int64_t groups;
    const float* x;
    int64_t n;
    int64_t count;
    float* sums;
    bool fresh;
  };

  // 4 weight rows by X rows of x. Lanes do not meet, so a set with narrow registers takes the 16
  // lanes one part after the other.
  template <int X>
  static void tile(const Panel& p, const float* w, const float* x, float* sums,
                   const float* next_sums) {
    const int64_t count = p.count;
    for (int part = 0; part < kParts; ++part) {
      Reg acc[X][kGroup];
      for (int j = 0; j < X; ++j) {
        for (int i = 0; i < kGroup; ++i) {
          acc[j][i] =
              p.fresh ? Isa::zero() : Isa::load(sums + (j * kPanel + i) * kLanes + part * kWidth);
        }
      }
      const float* wk = w + part * kWidth;
      const float* xk = x + part * kWidth;
      for (int64_t k = 0; k < count; k += 16) {
        // A line of the next tile's sums in each step: X rows of 4 lines.
        if (k < X * kGroup * 16) Isa::prefetch(next_sums + k / 64 * kPanel * kLanes + k % 64);
        Reg weights[kGroup];
        for (int i = 0; i < kGroup; ++i) weights[i] = Isa::load(wk + i * kChunk + k);
        for (int j = 0; j < X; ++j) {
          const Reg value = Isa::load(xk + j * count + k);
          for (int i = 0; i < kGroup; ++i) acc[j][i] = Isa::fma(weights[i], value, acc[j][i]);
        }
      }
      for (int j = 0; j < X; ++j) {
        for (int i = 0; i < kGroup; ++i) {
          Isa::store(sums + (j * kPanel + i) * kLanes + part * kWidth, acc[j][i]);
        }
      }
    }
  }

  template <int X>
  static void tile_of(int64_t rows, const Panel& p, const float* w, const float* x, float* sums,
                      const float* next_sums) {
    if constexpr (X > 1) {
      if (rows < X) return tile_of<X - 1>(rows, p, w, x, sums, next_sums);
    }
    tile<X>(p, w, x, sums, next_sums);
  }

  static int64_t tiles_of(int64_t n) { return (n + Isa::kTileX - 1) / Isa::kTileX; }

  static void multiply(const Panel& p, Ahead<Isa>& weights_ahead, Ahead<Isa>& x_ahead) {
    const int64_t tiles = tiles_of(p.n);
    for (int64_t t = 0; t < tiles; ++t) {
      // Even cuts: 16 rows are 6 + 5 + 5, not 6 + 6 + 4.
      const int64_t first = p.n * t / tiles;
      const int64_t end = p.n * (t + 1) / tiles;
      for (int64_t group = 0; group < p.groups; ++group) {
        float* own = p.sums + (first * kPanel + group * kGroup) * kLanes;
        const float* next =
            group + 1 < p.groups ? own + kGroup * kLanes : p.sums + end * kPanel * kLanes;
        tile_of<Isa::kTileX>(end - first, p, p.weights + group * kGroup * kChunk,
                             p.x + first * p.count, own, next);
        weights_ahead.fetch();
        x_ahead.fetch();
      }
    }
  }

  // Sums of one x row and up to 16 weight rows, to y.
  static void finish(const float* sums, int64_t rows, float* y) {
    if (rows == kPanel) return Isa::reduce(sums, y);
    float all[kPanel];
    Isa::reduce(sums, all);
    for (int64_t i = 0; i < rows; ++i) y[i] = all[i];
  }

  // acc[i][j] += weight row i times x row j.
  template <WeightFormat F, int N, int G>
  static void multiply_decoded(const std::byte* const* rows, const float* x, int64_t x_row,
                               int64_t cols, Reg (&acc)[G][N][kParts]) {
    int64_t k = 0;
    for (; k + 64 <= cols; k += 64) {
      for (int i = 0; i < G; ++i) {
        for (int64_t line = 0; line < kBytes<F>; ++line) {
          Isa::prefetch_far(rows[i] + k * kBytes<F> + kStreamAhead + line * 64);
        }
        Reg weights[4 * kParts];
        Isa::template decode<F>(rows[i] + k * kBytes<F>, weights);
        for (int step = 0; step < 4; ++step) {
          for (int j = 0; j < N; ++j) {
            for (int part = 0; part < kParts; ++part) {
              const float* at = x + j * x_row + k + step * 16 + part * kWidth;
              acc[i][j][part] =
                  Isa::fma(weights[step * kParts + part], Isa::load(at), acc[i][j][part]);
            }
          }
        }
      }
    }
    if (k < cols) {
      for (int i = 0; i < G; ++i) {
        const TailCopy tail(rows[i] + k * kBytes<F>, (cols - k) * kBytes<F>);
        for (int64_t step = 0; k + step < cols; step += 16) {
          Reg weights[kParts];
          Isa::template decode16<F>(tail.bytes + step * kBytes<F>, weights);
          for (int j = 0; j < N; ++j) {
            for (int part = 0; part < kParts; ++part) {
              const float* at = x + j * x_row + k + step + part * kWidth;
              acc[i][j][part] = Isa::fma(weights[part], Isa::load(at), acc[i][j][part]);
            }
          }
        }
      }
    }
  }

  // G weight rows times N packed rows of x: weights are decoded in registers and never stored.
  // sums[j][4 i] is x row j, weight row i.
  template <WeightFormat F, int N, int G>
  static void vector_group(const std::byte* const* rows, const std::byte* const* scales,
                           const float* x, int64_t cols, float* sums) {
    const int64_t x_row = pad16(cols);
    Reg acc[G][N][kParts];
    for (int i = 0; i < G; ++i) {
      for (int j = 0; j < N; ++j) {
        for (int part = 0; part < kParts; ++part) acc[i][j][part] = Isa::zero();
      }
    }
    if constexpr (level_bits(F) > 0) {
      using Of = Levels<Isa, F>;
      Of::template multiply<N>(typename Of::template Rows<G>{rows, scales, x, x_row, cols}, acc);
    } else {
      multiply_decoded<F, N, G>(rows, x, x_row, cols, acc);
    }
    for (int i = 0; i < G; ++i) {
      for (int j = 0; j < N; ++j) {
        for (int part = 0; part < kParts; ++part) {
          Isa::store(sums + (j * kPanel + i * kGroup) * kLanes + part * kWidth, acc[i][j][part]);
        }
      }
    }
  }

  // Weight rows [first, first + rows) of the view and x rows of `part`; the rows share their
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

  static void pack(const Job& job, int64_t k0, int64_t count, float* to) {
    for (int64_t j = 0; j < job.n; ++j) {
      pack_row(job.x + j * job.x_stride, k0, count, job.scales, job.w->block_cols,
               to + j * pad16(count));
    }
  }

  template <WeightFormat F>
  static const std::byte* row_at(const Job& job, int64_t r) {
    return job.w->data + (job.first + r) * bytes_of<F>(job.w->cols);
  }
  // BF16 scales of a row from column k0 on, where the format has them; else nullptr.
  template <WeightFormat F>
  static const std::byte* scales_at(const Job& job, int64_t r, int64_t k0) {
    if constexpr (level_bits(F) == 0) return nullptr;
    const int64_t row = job.w->first_row + job.first + r;
    return job.w->scale + (row * job.w->scale_cols + k0 / kLevelGroup) * 2;
  }

  // Sums of the weight rows from `first` on, times the rows' own scales where the format has them.
  template <WeightFormat F>
  static void scale_rows(const Job& job, int64_t first, int64_t rows, float* y) {
    if constexpr (F == WeightFormat::int8_row) {
      const std::byte* scales = job.w->scale + (job.w->first_row + job.first + first) * 4;
      for (int64_t i = 0; i < rows; ++i) y[i] *= load_scale(scales + i * 4);
    }
  }

  template <WeightFormat F>
  static void finish_panel(const Job& job, int64_t panel, const float* sums) {
    const int64_t rows = least(kPanel, job.rows - panel);
    for (int64_t j = 0; j < job.n; ++j) {
      float* y = job.y + j * job.y_stride + panel;
      finish(sums + j * kPanel * kLanes, rows, y);
      scale_rows<F>(job, panel, rows, y);
    }
  }

  template <WeightFormat F, int N>
  static void vectors(const Job& job, const Scratch& scratch) {
    if constexpr (N > 1) {
      if (job.n < N) return vectors<F, N - 1>(job, scratch);
    }
    const int64_t cols = job.w->cols;
    pack(job, 0, cols, scratch.packed);
    // The 4 rows that are worked together lie a quarter of all rows apart, so that memory is read
    // as 4 long streams, which the hardware foresees; 4 steps then make a panel.
    const int64_t quarter = (job.rows + kGroup - 1) / kGroup;
    for (int64_t first = 0; first < quarter; first += kPanel / kGroup) {
      const int64_t steps = least(kPanel / kGroup, quarter - first);
      for (int64_t step = 0; step < steps; ++step) {
        // Past the last row its bytes are read again and the sums dropped.
        const std::byte* at[kGroup];
        const std::byte* scales[kGroup];
        for (int64_t i = 0; i < kGroup; ++i) {
          const int64_t row = least(i * quarter + first + step, job.rows - 1);
          at[i] = row_at<F>(job, row);
          scales[i] = scales_at<F>(job, row, 0);
        }
        constexpr int kRows = Isa::vector_rows(N);
        for (int i = 0; i < kGroup; i += kRows) {
          vector_group<F, N, kRows>(at + i, scales + i, scratch.packed, cols,
                                    scratch.sums + (i * kGroup + step) * kLanes);
        }
      }
      for (int64_t j = 0; j < N; ++j) {
        float all[kPanel];
        Isa::reduce(scratch.sums + j * kPanel * kLanes, all);
        for (int64_t i = 0; i < kGroup; ++i) {
          const int64_t row = i * quarter + first;
          float* y = job.y + j * job.y_stride + row;
          const int64_t count = least(steps, job.rows - row);
          for (int64_t step = 0; step < count; ++step) y[step] = all[i * kGroup + step];
          scale_rows<F>(job, row, count, y);
        }
      }
    }
  }

  struct Place {
    int64_t panel;
    int64_t k0;
  };
  // One chunk of columns of one panel; `next` is where the work goes on.
  template <WeightFormat F>
  static void panel_chunk(const Job& job, Place here, Place next, const float* x, float* sums,
                          Ahead<Isa>& x_ahead, const Scratch& scratch) {
    const int64_t count = least(kChunk, job.w->cols - here.k0);
    const int64_t tiles = tiles_of(job.n) * (kPanel / kGroup);
    Ahead<Isa> weights_ahead(row_at<F>(job, next.panel) + bytes_of<F>(next.k0),
                             bytes_of<F>(job.w->cols),
                             bytes_of<F>(least(kChunk, job.w->cols - next.k0)), kPanel, tiles);
    const int64_t rows = least(kPanel, job.rows - here.panel);
    for (int64_t first = 0; first < rows; first += kDecoded) {
      const int64_t groups = (least(kDecoded, rows - first) + kGroup - 1) / kGroup;
      for (int64_t i = 0; i < groups * kGroup; ++i) {
        const int64_t r = least(here.panel + first + i, job.rows - 1);
        decode_row<F>(row_at<F>(job, r) + bytes_of<F>(here.k0), scales_at<F>(job, r, here.k0),
                      count, scratch.decoded + i * kChunk);
      }
      const Panel p = {scratch.decoded,       groups,      x, job.n, pad16(count),
                       sums + first * kLanes, here.k0 == 0};
      multiply(p, weights_ahead, x_ahead);
    }
  }

  // All of x packed once, then panel by panel.
  template <WeightFormat F>
  static void panel_order(const Job& job, const Scratch& scratch) {
    const int64_t cols = job.w->cols;
    for (int64_t k0 = 0; k0 < cols; k0 += kChunk) {
      pack(job, k0, least(kChunk, cols - k0), scratch.packed + k0 * job.n);
    }
    Ahead<Isa> nothing;
    for (int64_t panel = 0; panel < job.rows; panel += kPanel) {
      for (int64_t k0 = 0; k0 < cols; k0 += kChunk) {
        const Place next =
            k0 + kChunk < cols ? Place{panel, k0 + kChunk} : Place{panel + kPanel, 0};
        panel_chunk<F>(job, {panel, k0}, next, scratch.packed + k0 * job.n, scratch.sums, nothing,
                       scratch);
      }
      finish_panel<F>(job, panel, scratch.sums);
    }
  }

  // x too large to stay in cache: chunk by chunk, each for up to 128 weight rows.
  template <WeightFormat F>
  static void chunk_order(const Job& job, const Scratch& scratch) {
    const int64_t cols = job.w->cols;
    const int64_t panel_sums = job.n * kPanel * kLanes;
    for (int64_t block = 0; block < job.rows; block += kBlockRows) {
      const int64_t end = least(block + kBlockRows, job.rows);
      for (int64_t k0 = 0; k0 < cols; k0 += kChunk) {
        pack(job, k0, least(kChunk, cols - k0), scratch.packed);
        // Rows of x lie too far apart for the hardware to foresee the next chunk.
        const int64_t k_next = k0 + kChunk < cols ? k0 + kChunk : 0;
        Ahead<Isa> x_ahead(job.x + k_next, job.x_stride * 4, least(kChunk, cols - k_next) * 4,
                           job.n, tiles_of(job.n) * ((end - block + kGroup - 1) / kGroup));
        for (int64_t panel = block; panel < end; panel += kPanel) {
          Place next = {panel + kPanel, k0};
          if (next.panel >= end) next = {block, k0 + kChunk};
          if (next.k0 >= cols) next = {end, 0};
          panel_chunk<F>(job, {panel, k0}, next, scratch.packed,
                         scratch.sums + (panel - block) / kPanel * panel_sums, x_ahead, scratch);
        }
      }
      for (int64_t panel = block; panel < end; panel += kPanel) {
        finish_panel<F>(job, panel, scratch.sums + (panel - block) / kPanel * panel_sums);
      }
    }
  }

  template <WeightFormat F>
  static void run_format(const LinearPart& part) {
    const WeightView& w = part.w;
    Scratch scratch;
    scratch.packed = reinterpret_cast<float*>(part.scratch);
    scratch.sums = scratch.packed + kPackedFloats;
    scratch.decoded = scratch.sums + kSumFloats;
    const int64_t chunks = (part.x.rows + kMaxX - 1) / kMaxX;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t x_first = part.x.rows * chunk / chunks;
      const int64_t n = part.x.rows * (chunk + 1) / chunks - x_first;
      for (int64_t first = 0; first < w.rows;) {
        int64_t rows = w.rows - first;
        const std::byte* scales = nullptr;
        if constexpr (F == WeightFormat::fp8_block) {
          const int64_t scale_row = (w.first_row + first) / w.block_rows;
          rows = least(rows, (scale_row + 1) * w.block_rows - w.first_row - first);
          scales = w.scale + scale_row * w.scale_cols * 4;
        }
        const Job job = {&w,
                         part.x.data + x_first * part.x.stride,
                         part.x.stride,
                         n,
                         part.y.data + x_first * part.y.stride + first,
                         part.y.stride,
                         first,
                         rows,
                         scales};
        const int64_t packed = n * pad16(w.cols);
        if (n <= Isa::kVectors && packed <= kPackedFloats) {
          vectors<F, Isa::kVectors>(job, scratch);
        } else if (packed <= kPackedGoodFloats) {
          panel_order<F>(job, scratch);
        } else {
          chunk_order<F>(job, scratch);
        }
        first += rows;
      }
    }
  }

  static void run(const LinearPart& part) {
    if (part.w.cols == 0) {
      for (int64_t j = 0; j < part.y.rows; ++j) {
        for (int64_t r = 0; r < part.w.rows; ++r) part.y.data[j * part.y.stride + r] = 0;
      }
      return;
    }
    switch (part.w.format) {
      case WeightFormat::f32:
        return run_format<WeightFormat::f32>(part);
      case WeightFormat::bf16:
        return run_format<WeightFormat::bf16>(part);
      case WeightFormat::f16:
        return run_format<WeightFormat::f16>(part);
      case WeightFormat::fp8_block:
        return run_format<WeightFormat::fp8_block>(part);
      case WeightFormat::int8_row:
        return run_format<WeightFormat::int8_row>(part);
      case WeightFormat::int4:
        return run_format<WeightFormat::int4>(part);
      case WeightFormat::int3:
        return run_format<WeightFormat::int3>(part);
      case WeightFormat::int2:
        return run_format<WeightFormat::int2>(part);
    }
  }
};

}  // namespace
}  // namespace fathom
