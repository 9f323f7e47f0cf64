// What blocked.h is made of besides products: sizes, packed rows of x, ends of rows, prefetching.
// Internal linkage throughout, as in blocked.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/linear.h"

namespace fathom {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPanel = 16;       // weight rows that are worked together
constexpr int64_t kDecoded = 8;      // of these, rows that are decoded at a time
constexpr int64_t kGroup = 4;        // weight rows of a register tile
constexpr int64_t kChunk = 512;      // columns between two visits to the accumulators
constexpr int64_t kBlockRows = 128;  // weight rows that share packed activations in chunk order
constexpr int64_t kMaxX = 96;        // rows of x that are worked together

// So many bytes ahead a stream of weight rows is fetched into the second-level cache; past a row's
// end lies the row that is worked next.
constexpr int64_t kStreamAhead = 4096;

// Scratch: packed x, then accumulators, then decoded weights. The two hyperthreads of a
// core share its caches; the limits suit half of 48 KiB and half of 2 MiB.
constexpr int64_t kPackedFloats = int64_t{2} << 18;      // 2 MiB
constexpr int64_t kPackedGoodFloats = int64_t{5} << 15;  // 640 KiB: above it, pack chunk by chunk
constexpr int64_t kSumFloats = kBlockRows * kMaxX * kLanes;
constexpr int64_t kDecodedFloats = kDecoded * kChunk;
static_assert((kPackedFloats + kSumFloats + kDecodedFloats) * 4 <= int64_t{4} << 20);
static_assert(kMaxX * kChunk <= kPackedFloats);

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t pad16(int64_t k) { return (k + 15) & ~int64_t{15}; }

float load_scale(const std::byte* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// x[k0 .. k0 + count) times its blocks' scales, zero-padded to a multiple of 16. `scales` is null
// for formats without scales, else the row of the grid.
void pack_row(const float* x, int64_t k0, int64_t count, const std::byte* scales,
              int64_t block_cols, float* to) {
  if (scales == nullptr) {
    std::memcpy(to, x + k0, static_cast<size_t>(count) * sizeof(float));
  } else {
    for (int64_t k = 0; k < count;) {
      const int64_t block = (k0 + k) / block_cols;
      const int64_t end = least(count, (block + 1) * block_cols - k0);
      const float scale = load_scale(scales + block * 4) * 256.0f;
      for (; k < end; ++k) to[k] = x[k0 + k] * scale;
    }
  }
  for (int64_t k = count; k < pad16(count); ++k) to[k] = 0;
}

template <WeightFormat F>
constexpr int64_t kBytes = F == WeightFormat::f32         ? 4
                           : F == WeightFormat::fp8_block ? 1
                           : F == WeightFormat::int8_row  ? 1
                                                          : 2;  // not of int4, int3, int2

// Bytes of the first k columns of a row; of int4, int3 and int2 those of whole blocks.
template <WeightFormat F>
constexpr int64_t bytes_of(int64_t k) {
  if constexpr (level_bits(F) > 0) {
    return (k + kLevelBlock - 1) / kLevelBlock * 16 * level_bits(F);
  } else {
    return k * kBytes<F>;
  }
}

// The end of a row with zeros behind it, so that nothing past the row is read.
struct TailCopy {
  alignas(64) std::byte bytes[64 * 4];
  TailCopy(const std::byte* from, int64_t size) {
    std::memset(bytes, 0, sizeof bytes);
    std::memcpy(bytes, from, static_cast<size_t>(size));
  }
};

// Rows of memory that are wanted soon: fetched little by little over a number of tiles, so that
// the memory works while the arithmetic does.
template <typename Isa>
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

}  // namespace
}  // namespace fathom
