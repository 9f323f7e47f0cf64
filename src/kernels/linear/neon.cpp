#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/linear/blocked.h"

namespace fathom {
namespace {

struct Neon {
  using Reg = float32x4_t;
  static constexpr int kParts = 4;
  static constexpr int kTileX = 6;  // 24 accumulators, 4 weights, 1 activation of 32 registers
  static constexpr int kVectors = 1;
  static constexpr int vector_rows(int) { return 4; }

  static Reg zero() { return vdupq_n_f32(0); }
  static Reg load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, Reg value) { vst1q_f32(to, value); }
  static Reg fma(Reg a, Reg b, Reg c) { return vfmaq_f32(c, a, b); }
  static void prefetch(const void* at) { __builtin_prefetch(at, 0, 3); }
  static void prefetch_far(const void* at) { __builtin_prefetch(at, 0, 2); }

  static void widen_f16(uint16x8_t words, Reg* out) {
    const float16x8_t halves = vreinterpretq_f16_u16(words);
    out[0] = vcvt_f32_f16(vget_low_f16(halves));
    out[1] = vcvt_high_f32_f16(halves);
  }

  template <WeightFormat F>
  static void decode16(const std::byte* from, Reg* out) {
    const uint8_t* at = reinterpret_cast<const uint8_t*>(from);
    if constexpr (F == WeightFormat::f32) {
      for (int i = 0; i < 4; ++i) out[i] = vreinterpretq_f32_u8(vld1q_u8(at + i * 16));
    } else if constexpr (F == WeightFormat::bf16) {
      for (int i = 0; i < 2; ++i) {
        const uint16x8_t bits = vreinterpretq_u16_u8(vld1q_u8(at + i * 16));
        out[i * 2] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16));
        out[i * 2 + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16));
      }
    } else if constexpr (F == WeightFormat::f16) {
      for (int i = 0; i < 2; ++i) {
        widen_f16(vreinterpretq_u16_u8(vld1q_u8(at + i * 16)), out + i * 2);
      }
    } else if constexpr (F == WeightFormat::int8_row) {
      const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(at));
      const int16x8_t words[2] = {vmovl_s8(vget_low_s8(codes)), vmovl_high_s8(codes)};
      for (int i = 0; i < 2; ++i) {
        out[i * 2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(words[i])));
        out[i * 2 + 1] = vcvtq_f32_s32(vmovl_high_s16(words[i]));
      }
    } else {
      // The byte's sign stays on top and its exponent and mantissa move to those of binary16,
      // whose bias is larger by 8: the value divided by 256.
      const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(at));
      const uint16x8_t mask = vdupq_n_u16(0xbfff);
      const int16x8_t low = vshll_n_s8(vget_low_s8(codes), 7);
      const int16x8_t high = vshll_high_n_s8(codes, 7);
      widen_f16(vandq_u16(vreinterpretq_u16_s16(low), mask), out);
      widen_f16(vandq_u16(vreinterpretq_u16_s16(high), mask), out + 2);
    }
  }

  template <WeightFormat F>
  static void decode(const std::byte* from, Reg* out) {
    for (int i = 0; i < 4; ++i) decode16<F>(from + i * 16 * kBytes<F>, out + i * 4);
  }

  template <int kBits>
  class LevelBlock {
   public:
    LevelBlock() = default;
    LevelBlock(const std::byte* from, const float* scales) : scales_{scales[0], scales[1]} {
      const uint8_t* at = reinterpret_cast<const uint8_t*>(from);
      if constexpr (kBits == 4) {
        for (int i = 0; i < 4; ++i) codes_[i] = vreinterpretq_u32_u8(vld1q_u8(at + i * 16));
      } else if constexpr (kBits == 3) {
        // 12 bytes for each 4 lanes; the last 16 bytes are loaded 4 earlier, to stay in the block.
        constexpr uint8_t kWiden[] = {0, 1, 2, 255, 3, 4, 5, 255, 6, 7, 8, 255, 9, 10, 11, 255};
        constexpr uint8_t kLater[] = {4, 5, 6, 255, 7, 8, 9, 255, 10, 11, 12, 255, 13, 14, 15, 255};
        const uint8x16_t widen = vld1q_u8(kWiden);
        for (int i = 0; i < 3; ++i) {
          codes_[i] = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(at + i * 12), widen));
        }
        codes_[3] = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(at + 32), vld1q_u8(kLater)));
      } else {
        for (int i = 0; i < 2; ++i) {
          const uint16x8_t words = vreinterpretq_u16_u8(vld1q_u8(at + i * 16));
          codes_[2 * i] = vmovl_u16(vget_low_u16(words));
          codes_[2 * i + 1] = vmovl_high_u16(words);
        }
      }
    }
    template <int J>
    void get(Reg* out) const {
      const int8x16_t levels = vld1q_s8(kLevels<kBits>.level);
      for (int i = 0; i < 4; ++i) {
        const uint32x4_t shifted = vshlq_u32(codes_[i], vdupq_n_s32(-kBits * J));
        const uint32x4_t code = vandq_u32(shifted, vdupq_n_u32((1u << kBits) - 1));
        // Only the lowest byte of each lane is looked up to some use; its sign is spread.
        const int32x4_t found =
            vreinterpretq_s32_s8(vqtbl1q_s8(levels, vreinterpretq_u8_u32(code)));
        const int32x4_t level = vshrq_n_s32(vshlq_n_s32(found, 24), 24);
        out[i] = vmulq_n_f32(vcvtq_f32_s32(level), scales_[J / 4]);
      }
    }

   private:
    uint32x4_t codes_[4];
    float scales_[2];
  };

  static void reduce(const float* acc, float* out) {
    for (int i = 0; i < 16; ++i) {
      const float* a = acc + i * 16;
      const float32x4_t low = vaddq_f32(load(a), load(a + 8));
      const float32x4_t high = vaddq_f32(load(a + 4), load(a + 12));
      const float32x4_t four = vaddq_f32(low, high);
      const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
      out[i] = vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
    }
  }
};

}  // namespace

const LinearKernels linear_neon = {Blocked<Neon>::run};

}  // namespace fathom

#endif
