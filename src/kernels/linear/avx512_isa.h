// AVX-512 (F, BW, DQ, VL) for blocked.h; avx512.cpp and avx512vbmi.cpp differ in how FP8 is
// decoded.
#pragma once

#include <immintrin.h>

#include "kernels/linear/blocked.h"

namespace fathom {
namespace {

struct Avx512 {
  using Reg = __m512;
  static constexpr int kParts = 1;
  static constexpr int kTileX = 6;  // 24 accumulators, 4 weights, 1 activation of 32 registers
  static constexpr int kVectors = 4;
  static constexpr int vector_rows(int) { return 4; }

  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg load(const float* from) { return _mm512_load_ps(from); }
  static void store(float* to, Reg value) { _mm512_store_ps(to, value); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static void prefetch(const void* at) { _mm_prefetch(at, _MM_HINT_T0); }
  static void prefetch_far(const void* at) { _mm_prefetch(at, _MM_HINT_T1); }

  template <WeightFormat F>
  static void decode16(const std::byte* from, Reg* out) {
    if constexpr (F == WeightFormat::f32) {
      out[0] = _mm512_loadu_ps(from);
    } else if constexpr (F == WeightFormat::bf16) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
      out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    } else if constexpr (F == WeightFormat::f16) {
      out[0] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    } else if constexpr (F == WeightFormat::int8_row) {
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      out[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
    } else {
      // The byte's sign stays on top and its exponent and mantissa move to those of binary16,
      // whose bias is larger by 8: the value divided by 256.
      const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
      out[0] =
          _mm512_cvtph_ps(_mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0xbfff))));
    }
  }

  template <WeightFormat F>
  static void decode(const std::byte* from, Reg* out) {
    if constexpr (F == WeightFormat::fp8_block) {
      const __m512i mask = _mm512_set1_epi16(static_cast<short>(0xbfff));
      for (int half = 0; half < 2; ++half) {
        const __m256i codes =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + half * 32));
        const __m512i words =
            _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 7), mask);
        out[half * 2] = _mm512_cvtph_ps(_mm512_castsi512_si256(words));
        out[half * 2 + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, 1));
      }
    } else {
      for (int i = 0; i < 4; ++i) decode16<F>(from + i * 16 * kBytes<F>, out + i);
    }
  }

  template <int kBits>
  class LevelBlock {
   public:
    LevelBlock() = default;
    LevelBlock(const std::byte* from, const float* scales) : codes_(lanes(from)) {
      const __m512 levels = _mm512_load_ps(kLevels<kBits>.value);
      tables_[0] = _mm512_mul_ps(levels, _mm512_set1_ps(scales[0]));
      tables_[1] = _mm512_mul_ps(levels, _mm512_set1_ps(scales[1]));
    }
    // A permutation heeds the lowest 4 bits of each index, which is all that shifting must place.
    template <int J>
    void get(Reg* out) const {
      out[0] = _mm512_permutexvar_ps(_mm512_srli_epi32(codes_, kBits * J), tables_[J / 4]);
    }

   private:
    static __m512i lanes(const std::byte* from) {
      if constexpr (kBits == 4) {
        return _mm512_loadu_si512(from);
      } else if constexpr (kBits == 3) {  // each 4 lanes have 12 bytes
        const __m512i bytes = _mm512_maskz_loadu_epi32(0x0fff, from);
        const __m512i order = _mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
        const __m512i widen = _mm512_broadcast_i32x4(
            _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
        return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(order, bytes), widen);
      } else {
        return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
      }
    }
    __m512i codes_;
    __m512 tables_[2];
  };

  // Two vectors, each folded to half its length (the upper part onto the lower), side by side.
  static __m512 fold_halves(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  static __m512 fold_quarters(__m512 a, __m512 b) {  // within each 8 lanes: i + 4
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  static __m512 fold_pairs(__m512 a, __m512 b) {  // within each 4 lanes: i + 2
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  }
  static __m512 fold_last(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
  }

  static void reduce(const float* acc, float* out) {
    __m512 v[16];
    for (int i = 0; i < 16; ++i) v[i] = load(acc + i * 16);
    for (int i = 0; i < 8; ++i) v[i] = fold_halves(v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 4; ++i) v[i] = fold_quarters(v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 2; ++i) v[i] = fold_pairs(v[2 * i], v[2 * i + 1]);
    const __m512 sums = fold_last(v[0], v[1]);
    // Lane 4 q + p holds accumulator 4 p + q.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_ps(out, _mm512_permutexvar_ps(order, sums));
  }
};

}  // namespace
}  // namespace fathom
