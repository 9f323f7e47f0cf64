// NEON (AArch64) for the templates of combine, attention, norm and activation: four registers hold
// the 16 lanes of the canonical order.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace fathom {
namespace {

struct Vector {
  using Reg = float32x4_t;
  static constexpr int kLanes = 4;
  static constexpr int kParts = 4;       // registers per 16 lanes
  static constexpr int kUpdateRows = 6;  // 24 accumulators, 4 of w, 1 of p
  static constexpr int kUpdateCols = 4;
  static constexpr int kDotQueries = 5;  // 20 accumulators, 4 of w, 5 of q
  static constexpr int kDotRows = 4;

  static Reg zero() { return vdupq_n_f32(0.0f); }
  static Reg set1(float x) { return vdupq_n_f32(x); }
  static float first(Reg a) { return vgetq_lane_f32(a, 0); }
  static Reg load(const float* from) { return vld1q_f32(from); }
  static void store(float* to, Reg a) { vst1q_f32(to, a); }
  // The first `count` (< 4) lanes; the others are zero.
  static Reg load_some(const float* from, int64_t count) {
    float all[4] = {};
    for (int64_t i = 0; i < count; ++i) all[i] = from[i];
    return vld1q_f32(all);
  }
  static void store_some(float* to, Reg a, int64_t count) {
    float all[4];
    vst1q_f32(all, a);
    for (int64_t i = 0; i < count; ++i) to[i] = all[i];
  }
  // Keeps a value that is used several times in its register: the compiler would rather load it
  // again for each use, and loads are the bottleneck then.
  static void keep(Reg& a) { asm("" : "+w"(a)); }
  static Reg add(Reg a, Reg b) { return vaddq_f32(a, b); }
  static Reg sub(Reg a, Reg b) { return vsubq_f32(a, b); }
  static Reg mul(Reg a, Reg b) { return vmulq_f32(a, b); }
  static Reg div(Reg a, Reg b) { return vdivq_f32(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return vfmaq_f32(c, a, b); }
  static Reg fnma(Reg a, Reg b, Reg c) { return vfmsq_f32(c, a, b); }        // c - a * b
  static Reg max(Reg a, Reg b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }  // a > b ? a : b
  static Reg min(Reg a, Reg b) { return vbslq_f32(vcltq_f32(a, b), a, b); }  // a < b ? a : b
  static Reg minus_abs(Reg a) { return vnegq_f32(vabsq_f32(a)); }
  static Reg where_negative(Reg x, Reg yes, Reg no) {
    return vbslq_f32(vcltq_f32(x, zero()), yes, no);
  }
  static float square_root(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }
  // p * 2^n, rounded once, where n = t - kRoundMagic: t's low bits hold n. 2^n in two factors, for
  // results below the normal range.
  static Reg scale_by_power(Reg p, Reg t, Reg) {
    const int32x4_t whole = vsubq_s32(vreinterpretq_s32_f32(t), vdupq_n_s32(0x4b400000));
    const int32x4_t half = vshrq_n_s32(whole, 1);
    return mul(mul(p, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
  }
  static Reg power_of_two(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }

  // The first two steps of the tree: i + 8, then i + 4.
  static Reg fold_parts(Reg a, Reg b, Reg c, Reg d) { return add(add(a, c), add(b, d)); }
  static Reg fold_pairs(Reg a, Reg b) {  // i + 2 of both, side by side
    return add(vcombine_f32(vget_low_f32(a), vget_low_f32(b)),
               vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
  }
  static float tree16(const Reg* parts) {
    const Reg a = fold_parts(parts[0], parts[1], parts[2], parts[3]);
    const Reg b = fold_pairs(a, a);
    return first(vpaddq_f32(b, b));
  }
  static float largest(Reg a) {
    Reg b = max(a, vextq_f32(a, a, 2));
    b = max(b, vextq_f32(b, b, 1));
    return first(b);
  }

  // The trees of Q * 4 accumulators; acc holds all first parts, then all second parts, ...
  // out[i] = tree16(acc[i]) * scale.
  template <int Q>
  static void reduce(const Reg* acc, float scale, float* out) {
    constexpr int kPart = Q * 4;
    for (int i = 0; i < kPart; i += 4) {
      Reg v[4];
      for (int j = 0; j < 4; ++j) {
        const Reg* a = acc + i + j;
        v[j] = fold_parts(a[0], a[kPart], a[2 * kPart], a[3 * kPart]);
      }
      const Reg sums = vpaddq_f32(fold_pairs(v[0], v[1]), fold_pairs(v[2], v[3]));
      store(out + i, mul(sums, set1(scale)));
    }
  }

  static void decode_bf16(const std::byte* from, Reg* out) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(from);
    for (int i = 0; i < 4; ++i) {
      const uint16x4_t bits = vreinterpret_u16_u8(vld1_u8(bytes + 8 * i));
      out[i] = vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
    }
  }
  static void decode_f16(const std::byte* from, Reg* out) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(from);
    for (int i = 0; i < 4; ++i) {
      out[i] = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(bytes + 8 * i)));
    }
  }
  // Shifted into binary16, whose exponent bias is larger by 8: value / 256.
  static void decode_fp8(const std::byte* from, Reg* out) {
    const int8x16_t codes = vld1q_s8(reinterpret_cast<const int8_t*>(from));
    const uint16x8_t keep = vdupq_n_u16(0xbfff);
    const int16x8_t words[2] = {vshll_n_s8(vget_low_s8(codes), 7), vshll_high_n_s8(codes, 7)};
    for (int i = 0; i < 2; ++i) {
      const float16x8_t halves =
          vreinterpretq_f16_u16(vandq_u16(vreinterpretq_u16_s16(words[i]), keep));
      out[2 * i] = vcvt_f32_f16(vget_low_f16(halves));
      out[2 * i + 1] = vcvt_high_f32_f16(halves);
    }
  }
  static void decode_int8(const std::byte* from, Reg* out) {
    const int8x16_t bytes = vld1q_s8(reinterpret_cast<const int8_t*>(from));
    const int16x8_t words[2] = {vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)};
    for (int i = 0; i < 2; ++i) {
      out[2 * i] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(words[i])));
      out[2 * i + 1] = vcvtq_f32_s32(vmovl_high_s16(words[i]));
    }
  }
};

}  // namespace
}  // namespace fathom
