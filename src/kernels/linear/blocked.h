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
//   vector_rows(n)         weight rows (1, 2 or 4) that are then multiplied together
//   zero, load, store, fma
//   load_scaled(from, s)   floats from anywhere, times s
//   prefetch, prefetch_far into the nearest and into the second cache
//   Constants, constants<F>()  what decode<F> keeps in registers over a loop
//   decode<F>(c, bytes, out)   64 weights of format F as 4 * kParts vectors, natural order
//   decode16<F>            16 weights as kParts vectors
//   reduce(acc, out)       16 accumulators of 16 lanes to 16 sums, by the canonical tree
#pragma once

#include "kernels/linear/vectors.h"

namespace fathom {
namespace {

constexpr int64_t kChunk = 512;      // columns between two visits to the accumulators
constexpr int64_t kDecoded = 8;      // weight rows that are decoded before they are multiplied
constexpr int64_t kBlockRows = 128;  // weight rows that share packed activations
constexpr int64_t kMaxX = 96;        // rows of x that are worked together

// Scratch: packed activations (two chunks of columns, or whole rows where they are few), then
// accumulators, then decoded weights. What a chunk needs stays in a second-level cache of 2 MiB,
// and decoded weights beside activations of a tile in a first-level cache of 48 KiB.
constexpr int64_t kPackedFloats = int64_t{2} << 18;  // 2 MiB
constexpr int64_t kSumFloats = kBlockRows * kMaxX * kLanes;
constexpr int64_t kDecodedFloats = kDecoded * kChunk;
constexpr int64_t kLastFloats = 8 * kGroup * kLanes;
static_assert((kPackedFloats + kSumFloats + kDecodedFloats + kLastFloats) * 4 <= int64_t{4} << 20);
static_assert(2 * kMaxX * kChunk <= kPackedFloats);

template <typename Isa>
struct Blocked : Vectors<Isa> {
  using Reg = typename Isa::Reg;
  using Rows<Isa>::kParts;
  using Rows<Isa>::kWidth;
  static constexpr int64_t kPanel = Vectors<Isa>::kPanel;
  static_assert(Isa::kTileX <= 8);

  struct Scratch {
    float* packed;
    float* sums;
    float* decoded;
    float* last;  // finished sums of a tile
  };

  // 16 columns of a tile of 4 weight rows by X rows of x.
  template <int X>
  static inline __attribute__((always_inline)) void step(const float* w, const float* x,
                                                         Reg (&acc)[X][kGroup]) {
    if constexpr (X < kGroup) {
      Reg values[X];
      for (int j = 0; j < X; ++j) values[j] = Isa::load(x + j * kLanes);
      for (int i = 0; i < kGroup; ++i) {
        const Reg weight = Isa::load(w + i * kLanes);
        for (int j = 0; j < X; ++j) acc[j][i] = Isa::fma(weight, values[j], acc[j][i]);
      }
    } else {
      Reg weights[kGroup];
      for (int i = 0; i < kGroup; ++i) weights[i] = Isa::load(w + i * kLanes);
      for (int j = 0; j < X; ++j) {
        const Reg value = Isa::load(x + j * kLanes);
        for (int i = 0; i < kGroup; ++i) acc[j][i] = Isa::fma(weights[i], value, acc[j][i]);
      }
    }
  }

  // 4 decoded weight rows by X packed rows of x, for `count` columns (a multiple of 16). Weights
  // and activations lie in the order in which they are read: 16 columns of each row, then the
  // next 16. Sums, [x row][weight row][lane], begin at zero if `from` is null.
  struct Tile {
    const float* weights;
    const float* x;
    int64_t count;
    const float* from;
    float* to;
    const float* next;  // the sums of the next tile, to be fetched
    const float* far;   // what is wanted later, to be fetched into the second cache
  };

  // Two pointers in registers. It keeps the compiler from mixing the loads of two steps, for which
  // registers do not suffice.
  static void settle(const float*& w, const float*& x) { asm("" : "+r"(w), "+r"(x)); }

  // Lanes do not meet, so a set with narrow registers takes the 16 lanes one part after the other.
  template <int X>
  __attribute__((noinline)) static void tile(const Tile& t) {
    constexpr int64_t kSums = X * kGroup * kLanes;
    for (int part = 0; part < kParts; ++part) {
      Reg acc[X][kGroup];
      for (int j = 0; j < X; ++j) {
        for (int i = 0; i < kGroup; ++i) {
          acc[j][i] = t.from == nullptr
                          ? Isa::zero()
                          : Isa::load(t.from + (j * kGroup + i) * kLanes + part * kWidth);
        }
      }
      const float* w = t.weights + part * kWidth;
      const float* x = t.x + part * kWidth;
      int64_t left = t.count / kLanes;
      const float* next = t.next;
      const float* far = t.far;
      for (; left >= 2 && next < t.next + kSums; left -= 2) {
        Isa::prefetch(next);
        Isa::prefetch(next + kLanes);
        next += 2 * kLanes;
        step<X>(w, x, acc);
        settle(w, x);
        step<X>(w + kGroup * kLanes, x + X * kLanes, acc);
        w += 2 * kGroup * kLanes;
        x += 2 * X * kLanes;
        settle(w, x);
      }
      for (; left >= 2; left -= 2) {
        // One line at a time: many at once would keep the tile's own loads waiting.
        Isa::prefetch_far(far);
        far += kLanes;
        step<X>(w, x, acc);
        settle(w, x);
        step<X>(w + kGroup * kLanes, x + X * kLanes, acc);
        w += 2 * kGroup * kLanes;
        x += 2 * X * kLanes;
        settle(w, x);
      }
      if (left > 0) step<X>(w, x, acc);
      for (int j = 0; j < X; ++j) {
        for (int i = 0; i < kGroup; ++i) {
          Isa::store(t.to + (j * kGroup + i) * kLanes + part * kWidth, acc[j][i]);
        }
      }
    }
  }

  template <int X>
  static void tile_of(int64_t rows, const Tile& t) {
    if constexpr (X > 1) {
      if (rows < X) return tile_of<X - 1>(rows, t);
    }
    tile<X>(t);
  }

  // Register tiles of n rows of x, cut evenly: 16 rows are 6 + 5 + 5, not 6 + 6 + 4.
  static int64_t tiles_of(int64_t n) { return (n + Isa::kTileX - 1) / Isa::kTileX; }
  static int64_t tile_begin(int64_t n, int64_t t) { return n * t / tiles_of(n); }

  // Rows of memory that are wanted soon: fetched little by little over a number of tiles, so that
  // the memory works while the arithmetic does.
  class Ahead {
   public:
    Ahead() = default;
    // Of `rows` rows that lie row_bytes apart the first `bytes`.
    Ahead(const void* from, int64_t row_bytes, int64_t bytes, int64_t rows, int64_t tiles)
        : at_(static_cast<const std::byte*>(from)),
          row_end_(at_ + bytes),
          to_next_row_(row_bytes - (bytes + kStep - 1) / kStep * kStep),
          row_bytes_(row_bytes),
          steps_((bytes + kStep - 1) / kStep * rows),
          pace_((steps_ + tiles - 1) / tiles) {}

    void fetch() {
      for (int64_t step = least(pace_, steps_); step > 0; --step) {
        for (int64_t line = 0; line < kStep; line += 64) Isa::prefetch_far(at_ + line);
        at_ += kStep;
        --steps_;
        if (at_ >= row_end_) {
          at_ += to_next_row_;
          row_end_ += row_bytes_;
        }
      }
    }

   private:
    static constexpr int64_t kStep = 256;  // bytes fetched together
    const std::byte* at_ = nullptr;
    const std::byte* row_end_ = nullptr;
    int64_t to_next_row_ = 0;
    int64_t row_bytes_ = 0;
    int64_t steps_ = 0;
    int64_t pace_ = 0;
  };

  // The activations of a chunk of columns on their way to packed form, tile after tile. It goes on
  // bit by bit between the tiles of the chunk before, and fetches a bit before it is packed.
  class Packing {
   public:
    Packing(const Job& job, int64_t k0, float* to, int64_t tiles)
        : job_(job), k0_(k0), count_(least(kChunk, job.w->cols - k0)), to_(to) {
      if (count_ <= 0) row_ = job.n;
      const int64_t bits = job.n * ((count_ + kBit - 1) / kBit);
      pace_ = (bits + tiles - 1) / tiles;
      tile_end_ = tile_begin(job.n, 1);
    }

    void go_on() {
      for (int64_t i = 0; i < pace_; ++i) one();
    }
    // What will be packed some bits later, to be fetched meanwhile.
    const float* far() const { return job_.x + (row_ + kFar) * job_.x_stride + k0_ + k_; }
    void finish() {
      while (row_ < job_.n) one();
    }

   private:
    static constexpr int64_t kBit = 256;  // columns
    static constexpr int64_t kFar = 2;    // rows between what is fetched and what is packed

    void one() {
      if (row_ == job_.n) return;
      const float* x = job_.x + row_ * job_.x_stride;
      const int64_t k = k_;
      const int64_t tile_rows = tile_end_ - tile_first_;
      float* to =
          to_ + tile_first_ * pad16(count_) + (row_ - tile_first_ + k / 16 * tile_rows) * 16;
      k_ += kBit;
      if (k_ >= count_) {
        k_ = 0;
        ++row_;
        if (row_ == tile_end_ && row_ < job_.n) {
          ++tile_;
          tile_first_ = tile_end_;
          tile_end_ = tile_begin(job_.n, tile_ + 1);
        }
      }
      Rows<Isa>::pack_row(x, k0_ + k, least(kBit, count_ - k), job_.scales, job_.w->block_cols, to,
                          tile_rows * kLanes);
    }

    const Job& job_;
    int64_t k0_;
    int64_t count_;
    float* to_;
    int64_t pace_ = 0;
    int64_t row_ = 0;  // what is packed next: from column k0_ + k_ of this row on
    int64_t k_ = 0;
    int64_t tile_ = 0;  // the tile of that row
    int64_t tile_first_ = 0;
    int64_t tile_end_ = 0;
  };

  // The sums of `x_rows` rows of x and `rows` (up to 4) weight rows, to y.
  static void finish(const float* sums, int64_t x_rows, int64_t rows, float* y, int64_t y_stride) {
    for (int64_t first = 0; first < x_rows; first += kPanel / kGroup) {
      float all[kPanel];
      Isa::reduce(sums + first * kGroup * kLanes, all);
      for (int64_t j = first; j < least(x_rows, first + kPanel / kGroup); ++j) {
        const float* from = all + (j - first) * kGroup;
        if (rows == kGroup) {
          std::memcpy(y + j * y_stride, from, kGroup * sizeof(float));
        } else {
          for (int64_t i = 0; i < rows; ++i) y[j * y_stride + i] = from[i];
        }
      }
    }
  }

  template <WeightFormat F>
  __attribute__((noinline)) static void decode_group(const Job& job, int64_t row, int64_t k0,
                                                     int64_t count, float* to) {
    const typename Isa::Constants constants = Isa::template constants<F>();
    for (int64_t i = 0; i < kGroup; ++i) {
      Rows<Isa>::template decode_row<F>(constants, row_at<F>(job, row + i) + k0 * kBytes<F>, count,
                                        to + i * kLanes, kGroup * kLanes);
    }
  }

  // Chunk by chunk of columns, each for up to 128 weight rows.
  template <WeightFormat F>
  static void many(const Job& job, const Scratch& scratch) {
    const int64_t cols = job.w->cols;
    const int64_t tiles = tiles_of(job.n);
    for (int64_t block = 0; block < job.rows; block += kBlockRows) {
      const int64_t end = least(block + kBlockRows, job.rows);
      const int64_t all_tiles = tiles * ((end - block + kGroup - 1) / kGroup);
      float* packed = scratch.packed;
      float* other = packed + kMaxX * kChunk;
      Packing(job, 0, packed, 1).finish();
      for (int64_t k0 = 0; k0 < cols; k0 += kChunk) {
        Packing packing(job, k0 + kChunk, other, all_tiles);
        const int64_t count = least(kChunk, cols - k0);
        const bool last = k0 + kChunk >= cols;
        Ahead weights_ahead;
        for (int64_t row = block; row < end; row += kDecoded) {
          if ((row - block) % kPanel == 0) {
            // The next 16 rows, or the first of the next chunk.
            const bool below = row + kPanel < end;
            const int64_t k_next = below ? k0 : k0 + kChunk;
            if (k_next < cols) {
              weights_ahead =
                  Ahead(row_at<F>(job, below ? row + kPanel : block) + k_next * kBytes<F>,
                        cols * kBytes<F>, least(kChunk, cols - k_next) * kBytes<F>, kPanel,
                        tiles * (kPanel / kGroup));
            }
          }
          const int64_t groups = least(kDecoded / kGroup, (end - row + kGroup - 1) / kGroup);
          for (int64_t g = 0; g < groups; ++g) {
            decode_group<F>(job, row + g * kGroup, k0, count,
                            scratch.decoded + g * kGroup * kChunk);
          }
          for (int64_t t = 0; t < tiles; ++t) {
            const int64_t first = tile_begin(job.n, t);
            const int64_t x_rows = tile_begin(job.n, t + 1) - first;
            for (int64_t g = 0; g < groups; ++g) {
              float* own =
                  scratch.sums +
                  ((row - block) * job.n + (first * groups + g * x_rows) * kGroup) * kLanes;
              tile_of<Isa::kTileX>(
                  x_rows, {scratch.decoded + g * kGroup * kChunk, packed + first * pad16(count),
                           pad16(count), k0 == 0 ? nullptr : own, last ? scratch.last : own,
                           own + x_rows * kGroup * kLanes, packing.far()});
              if (last) {
                const int64_t group_row = row + g * kGroup;
                finish(scratch.last, x_rows, least(kGroup, end - group_row),
                       job.y + first * job.y_stride + group_row, job.y_stride);
              }
              weights_ahead.fetch();
              packing.go_on();
            }
          }
        }
        packing.finish();
        float* free = packed;
        packed = other;
        other = free;
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
    scratch.last = scratch.decoded + kDecodedFloats;
    const int64_t chunks = (part.x.rows + kMaxX - 1) / kMaxX;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      // Whole tiles in all but the last.
      const int64_t x_first = tiles_of(part.x.rows) * chunk / chunks * Isa::kTileX;
      const int64_t x_end = tiles_of(part.x.rows) * (chunk + 1) / chunks * Isa::kTileX;
      const int64_t n = least(x_end, part.x.rows) - x_first;
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
        if (n <= Isa::kVectors && n * pad16(w.cols) <= kPackedFloats) {
          Vectors<Isa>::template vectors<F, Isa::kVectors>(job, scratch.packed, scratch.sums);
        } else {
          many<F>(job, scratch);
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
    }
  }
};

}  // namespace
}  // namespace fathom
