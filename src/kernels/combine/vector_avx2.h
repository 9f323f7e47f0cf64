// AVX2 with FMA and F16C for the templates of combine, attention, norm and activation: two
// registers hold the 16 lanes of the canonical order.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace fathom {
namespace {

struct Vector {
  using Reg = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kParts = 2;       // registers per 16 lanes
  static constexpr int kUpdateRows = 6;  // 12 accumulators, 2 of w, 1 of p
  static constexpr int kUpdateCols = 2;
  static constexpr int kDotQueries = 3;  // 12 accumulators, 3 of q, 1 of w
  static constexpr int kDotRows = 4;

  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg set1(float x) { return _mm256_set1_ps(x); }
  static float first(Reg a) { return _mm256_cvtss_f32(a); }
  static Reg load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Reg a) { _mm256_storeu_ps(to, a); }
  static __m256i mask(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  // The first `count` (< 8) lanes; the others are zero.
  static Reg load_some(const float* from, int64_t count) {
    return _mm256_maskload_ps(from, mask(count));
  }
  static void store_some(float* to, Reg a, int64_t count) {
    _mm256_maskstore_ps(to, mask(count), a);
  }
  // Keeps a value that is used several times in its register: the compiler would rather load it
  // again for each use, and loads are the bottleneck then.
  static void keep(Reg& a) { asm("" : "+x"(a)); }
  static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }                // a > b ? a : b
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }                // a < b ? a : b
  static Reg minus_abs(Reg a) { return _mm256_or_ps(a, _mm256_set1_ps(-0.0f)); }
  static Reg where_negative(Reg x, Reg yes, Reg no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, zero(), _CMP_LT_OQ));
  }
  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
  // p * 2^n, rounded once, where n = t - kRoundMagic: t's low bits hold n. 2^n in two factors, for
  // results below the normal range.
  static Reg scale_by_power(Reg p, Reg t, Reg) {
    const __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000));
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return mul(mul(p, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }
  static Reg power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }

  static float tree16(const Reg* parts) {
    const Reg a = add(parts[0], parts[1]);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }
  static float largest(Reg a) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }

  // The trees of Q * 4 accumulators; acc holds all first parts, then all second parts.
  // out[i] = tree16(acc[i]) * scale.
  template <int Q>
  static void reduce(const Reg* acc, float scale, float* out) {
    for (int i = 0; i < Q; ++i) {
      Reg v[4];
      for (int j = 0; j < 4; ++j) v[j] = add(acc[i * 4 + j], acc[(Q + i) * 4 + j]);
      const Reg c0 = fold_quarters(v[0], v[1]);
      const Reg c1 = fold_quarters(v[2], v[3]);
      const Reg d = add(_mm256_shuffle_ps(c0, c1, 0x44), _mm256_shuffle_ps(c0, c1, 0xee));
      const Reg e = add(_mm256_shuffle_ps(d, d, 0x88), _mm256_shuffle_ps(d, d, 0xdd));
      // Sums 0 and 2 lie in the lower half, 1 and 3 in the upper.
      const __m128 sums = _mm_unpacklo_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
      _mm_storeu_ps(out + i * 4, _mm_mul_ps(sums, _mm_set1_ps(scale)));
    }
  }
  static Reg fold_quarters(Reg a, Reg b) {  // within 8 lanes, i + 4; a's sums below b's
    return add(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  }

  static __m128i load16(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static void decode_bf16(const std::byte* from, Reg* out) {
    for (int i = 0; i < 2; ++i) {
      const __m256i bits = _mm256_cvtepu16_epi32(load16(from + 16 * i));
      out[i] = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    }
  }
  static void decode_f16(const std::byte* from, Reg* out) {
    for (int i = 0; i < 2; ++i) out[i] = _mm256_cvtph_ps(load16(from + 16 * i));
  }
  // Shifted into binary16, whose exponent bias is larger by 8: value / 256.
  static void decode_fp8(const std::byte* from, Reg* out) {
    const __m256i words = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(load16(from)), 7),
                                           _mm256_set1_epi16(static_cast<short>(0xbfff)));
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(words));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
  }
  static void decode_int8(const std::byte* from, Reg* out) {
    const __m128i bytes = load16(from);
    out[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    out[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
  }
};

}  // namespace
}  // namespace fathom
