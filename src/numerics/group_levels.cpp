#include "numerics/group_levels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "numerics/half.h"

namespace fathom {
namespace {

// Sums run in 8 lanes and then in order, which compilers turn into vectors and all machines into
// the same bits.
constexpr int64_t kSumLanes = 8;

float sum_of(const float* lanes) {
  float sum = 0;
  for (int64_t i = 0; i < kSumLanes; ++i) sum += lanes[i];
  return sum;
}

template <int kBits>
constexpr const uint8_t* magnitudes() {
  return LevelTable<kBits>::kMagnitudes;
}

template <int kBits>
class Group {
 public:
  static constexpr int kCount = 1 << (kBits - 1);

  // Absolute values of 64 weights, zeros where there are fewer.
  explicit Group(const float* sizes) : sizes_(sizes) {}

  // Nearest magnitudes for a scale, kept in levels_.
  void assign(float scale) {
    float border[kCount - 1];
    borders(scale, border);
    for (int64_t i = 0; i < kLevelGroup; ++i) {
      float level = static_cast<float>(magnitudes<kBits>()[0]);
      for (int m = 0; m + 1 < kCount; ++m) {
        const int step = magnitudes<kBits>()[m + 1] - magnitudes<kBits>()[m];
        level += sizes_[i] > border[m] ? static_cast<float>(step) : 0.0f;
      }
      levels_[i] = level;
    }
  }
  // The scale with the least squared error for the magnitudes chosen.
  float best_scale() const {
    float products[kSumLanes] = {};
    float squares[kSumLanes] = {};
    for (int64_t k = 0; k < kLevelGroup; k += kSumLanes) {
      for (int64_t i = 0; i < kSumLanes; ++i) {
        products[i] += sizes_[k + i] * levels_[k + i];
        squares[i] += levels_[k + i] * levels_[k + i];
      }
    }
    return sum_of(products) / sum_of(squares);
  }
  float error(float scale) const {
    float errors[kSumLanes] = {};
    for (int64_t k = 0; k < kLevelGroup; k += kSumLanes) {
      for (int64_t i = 0; i < kSumLanes; ++i) {
        const float off = sizes_[k + i] - levels_[k + i] * scale;
        errors[i] += off * off;
      }
    }
    return sum_of(errors);
  }
  void magnitude_codes(float scale, uint32_t* codes) const {
    float border[kCount - 1];
    borders(scale, border);
    for (int64_t i = 0; i < kLevelGroup; ++i) {
      uint32_t code = 0;
      for (int m = 0; m + 1 < kCount; ++m) code += sizes_[i] > border[m] ? 1u : 0u;
      codes[i] = code;
    }
  }

 private:
  // Halfway between neighbours; a value on the border takes the smaller one.
  static void borders(float scale, float* border) {
    for (int m = 0; m + 1 < kCount; ++m) {
      const int sum = magnitudes<kBits>()[m] + magnitudes<kBits>()[m + 1];
      border[m] = 0.5f * static_cast<float>(sum) * scale;
    }
  }

  const float* sizes_;
  float levels_[kLevelGroup];
};

float rounded_scale(float scale) { return bf16_to_float(float_to_bf16(scale)); }

// First guesses, as parts of the scale with which the largest weight has the largest level. Of few
// levels the best scale cuts off more.
template <int kBits>
constexpr float kGuesses[3] = {kBits == 4   ? 0.8f
                               : kBits == 3 ? 0.75f
                                            : 0.6f,
                               kBits == 4   ? 0.9f
                               : kBits == 3 ? 0.87f
                                            : 0.8f,
                               1.0f};

// Magnitude codes of a group; returns its scale.
template <int kBits>
float quantise_group(const float* sizes, uint32_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < kLevelGroup; ++i) largest = std::max(largest, sizes[i]);
  // Squares of the group's weights must neither underflow nor overflow.
  int exponent = 0;
  float scaled[kLevelGroup];
  if (largest < 0x1p-40f || largest > 0x1p40f) {
    std::frexp(largest, &exponent);
    for (int64_t i = 0; i < kLevelGroup; ++i) scaled[i] = std::ldexp(sizes[i], -exponent);
    sizes = scaled;
    largest = std::ldexp(largest, -exponent);
  }
  const float whole = largest / 127.0f;

  Group<kBits> group(sizes);
  float best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (const float guess : kGuesses<kBits>) {
    group.assign(whole * guess);
    for (int step = 0; step < 2; ++step) group.assign(group.best_scale());
    const float scale = rounded_scale(group.best_scale());
    group.assign(scale);
    const float error = group.error(scale);
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  group.magnitude_codes(best, codes);
  return exponent == 0 ? best : rounded_scale(std::ldexp(best, exponent));
}

template <int kBits>
void quantise_row(const float* values, int64_t count, std::byte* codes, std::byte* scales) {
  constexpr uint32_t kSign = 1u << (kBits - 1);
  std::fill_n(codes, level_row_bytes(count, kBits), std::byte{0});
  for (int64_t block = 0; block < level_blocks(count); ++block) {
    uint32_t lanes[16] = {};
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t first = block * kLevelBlock + half * kLevelGroup;
      const int64_t here = std::clamp<int64_t>(count - first, 0, kLevelGroup);
      float sizes[kLevelGroup] = {};
      float largest = 0;
      for (int64_t i = 0; i < here; ++i) {
        sizes[i] = std::fabs(values[first + i]);
        largest = std::max(largest, sizes[i]);
      }
      float scale = 0;
      // Columns that are missing have no say in the scale.
      for (int64_t i = here; i < kLevelGroup && here > 0; ++i) sizes[i] = sizes[i % here];
      uint32_t chosen[kLevelGroup] = {};
      if (largest > 0) scale = quantise_group<kBits>(sizes, chosen);
      for (int64_t i = 0; i < here && scale > 0; ++i) {
        const uint32_t code = chosen[i] | (std::signbit(values[first + i]) ? kSign : 0);
        const int64_t j = (half * kLevelGroup + i) / 16;
        lanes[i % 16] |= code << (kBits * j);
      }
      const uint16_t bits = float_to_bf16(scale);
      std::memcpy(scales + (block * 2 + half) * 2, &bits, sizeof bits);
    }
    std::byte* at = codes + block * 16 * kBits;
    for (int64_t i = 0; i < 16; ++i) {
      for (int byte = 0; byte < kBits; ++byte) {
        at[i * kBits + byte] = static_cast<std::byte>(lanes[i] >> (8 * byte));
      }
    }
  }
}

template <int kBits>
int level(uint32_t code) {
  constexpr uint32_t kSign = 1u << (kBits - 1);
  const int magnitude = magnitudes<kBits>()[code & (kSign - 1)];
  return (code & kSign) != 0 ? -magnitude : magnitude;
}

}  // namespace

int level_of(int bits, uint32_t code) {
  return bits == 4 ? level<4>(code) : bits == 3 ? level<3>(code) : level<2>(code);
}

void quantise_levels_row(const float* values, int64_t count, int bits, std::byte* codes,
                         std::byte* scales) {
  if (bits == 4) return quantise_row<4>(values, count, codes, scales);
  if (bits == 3) return quantise_row<3>(values, count, codes, scales);
  quantise_row<2>(values, count, codes, scales);
}

float level_value(const std::byte* codes, const std::byte* scales, int bits, int64_t col) {
  const int64_t in_block = col % kLevelBlock;
  const std::byte* lane = codes + col / kLevelBlock * 16 * bits + in_block % 16 * bits;
  uint32_t number = 0;
  for (int byte = 0; byte < bits; ++byte) {
    number |= static_cast<uint32_t>(lane[byte]) << (8 * byte);
  }
  const uint32_t code =
      (number >> (static_cast<uint32_t>(bits) * static_cast<uint32_t>(in_block / 16))) &
      ((1u << bits) - 1);
  uint16_t scale;
  std::memcpy(&scale, scales + col / kLevelGroup * 2, sizeof scale);
  return static_cast<float>(level_of(bits, code)) * bf16_to_float(scale);
}

}  // namespace fathom
