// Few rows of activations: weights are multiplied in the registers in which they are decoded, and
// never stored.
#pragma once

#include "kernels/linear/rows.h"

namespace fathom {
namespace {

template <typename Isa>
struct Vectors : Rows<Isa> {
  using Reg = typename Isa::Reg;
  using Rows<Isa>::kParts;
  using Rows<Isa>::kWidth;
  static constexpr int64_t kPanel = 16;  // weight rows whose sums are reduced together

  // G weight rows times N packed rows of x, `x_row` floats apart: weights are decoded in registers
  // and never stored. sums[j][4 i] is x row j, weight row i.
  template <WeightFormat F, int N, int G>
  static void vector_group(const std::byte* const* rows, const float* x, int64_t x_row,
                           int64_t cols, float* sums) {
    constexpr int64_t kAhead = 1536;  // bytes; past a row's end lies the row that is worked next
    const typename Isa::Constants constants = Isa::template constants<F>();
    Reg acc[G][N][kParts];
    for (int i = 0; i < G; ++i) {
      for (int j = 0; j < N; ++j) {
        for (int part = 0; part < kParts; ++part) acc[i][j][part] = Isa::zero();
      }
    }
    int64_t k = 0;
    for (; k + 64 <= cols; k += 64) {
      for (int i = 0; i < G; ++i) {
        for (int64_t line = 0; line < kBytes<F>; ++line) {
          Isa::prefetch(rows[i] + k * kBytes<F> + kAhead + line * 64);
        }
        Reg weights[4 * kParts];
        Isa::template decode<F>(constants, rows[i] + k * kBytes<F>, weights);
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
    for (int i = 0; i < G; ++i) {
      for (int j = 0; j < N; ++j) {
        for (int part = 0; part < kParts; ++part) {
          Isa::store(sums + (j * kPanel + i * kGroup) * kLanes + part * kWidth, acc[i][j][part]);
        }
      }
    }
  }

  template <WeightFormat F, int N>
  static void vectors(const Job& job, float* packed, float* sums) {
    if constexpr (N > 1) {
      if (job.n < N) return vectors<F, N - 1>(job, packed, sums);
    }
    const int64_t cols = job.w->cols;
    for (int64_t j = 0; j < N; ++j) {
      Rows<Isa>::pack_row(job.x + j * job.x_stride, 0, cols, job.scales, job.w->block_cols,
                          packed + j * pad16(cols), kLanes);
    }
    constexpr int kRows = Isa::vector_rows(N);
    // The 4 rows that are worked together lie a quarter of all rows apart, so that memory is read
    // as 4 long streams, which the hardware foresees; 4 steps then make a panel.
    const int64_t quarter = (job.rows + kGroup - 1) / kGroup;
    for (int64_t first = 0; first < quarter; first += kPanel / kGroup) {
      const int64_t steps = least(kPanel / kGroup, quarter - first);
      for (int64_t step = 0; step < steps; ++step) {
        // Past the last row its bytes are read again and the sums dropped.
        const std::byte* at[kGroup];
        for (int64_t i = 0; i < kGroup; ++i) {
          at[i] = row_at<F>(job, i * quarter + first + step);
        }
        for (int i = 0; i < kGroup; i += kRows) {
          vector_group<F, N, kRows>(at + i, packed, pad16(cols), cols,
                                    sums + (i * kGroup + step) * kLanes);
        }
      }
      for (int64_t j = 0; j < N; ++j) {
        float all[kPanel];
        Isa::reduce(sums + j * kPanel * kLanes, all);
        for (int64_t i = 0; i < kGroup; ++i) {
          const int64_t row = i * quarter + first;
          float* y = job.y + j * job.y_stride + row;
          for (int64_t step = 0; step < least(steps, job.rows - row); ++step) {
            y[step] = all[i * kGroup + step];
          }
        }
      }
    }
  }
};

}  // namespace
}  // namespace fathom
