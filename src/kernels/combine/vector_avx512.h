// AVX-512 (F, BW, DQ, VL) for the templates of combine, attention, norm and activation: one
// register holds the 16 lanes of the canonical order.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace fathom {
namespace {

struct Vector {
  using Reg = __m512;
  static constexpr int kLanes = 16;
  static constexpr int kParts = 1;       // registers per 16 lanes
  static constexpr int kUpdateRows = 6;  // 24 accumulators, 4 of w, 1 of p
  static constexpr int kUpdateCols = 4;
  static constexpr int kDotQueries = 2;  // 16 accumulators, 8 of w, 2 of q
  static constexpr int kDotRows = 8;

  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg set1(float x) { return _mm512_set1_ps(x); }
  static float first(Reg a) { return _mm512_cvtss_f32(a); }
  static Reg load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Reg a) { _mm512_storeu_ps(to, a); }
  static __mmask16 mask(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
  // The first `count` (< 16) lanes; the others are zero.
  static Reg load_some(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(mask(count), from);
  }
  static void store_some(float* to, Reg a, int64_t count) {
    _mm512_mask_storeu_ps(to, mask(count), a);
  }
  // Keeps a value that is used several times in its register: the compiler would rather load it
  // again for each use, and loads are the bottleneck then.
  static void keep(Reg& a) { asm("" : "+v"(a)); }
  static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }                // a > b ? a : b
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }                // a < b ? a : b
  static Reg minus_abs(Reg a) { return _mm512_or_ps(a, _mm512_set1_ps(-0.0f)); }
  static Reg where_negative(Reg x, Reg yes, Reg no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, zero(), _CMP_LT_OQ), no, yes);
  }
  static float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
  // p * 2^n, rounded once, where n = t - kRoundMagic.
  static Reg scale_by_power(Reg p, Reg, Reg n) { return _mm512_scalef_ps(p, n); }

  static __m512 fold_halves(__m512 a, __m512 b) {  // i + 8 of both, side by side
    return add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
  static __m512 fold_quarters(__m512 a, __m512 b) {  // within 8 lanes, i + 4
    return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
  static __m512 fold_pairs(__m512 a, __m512 b) {  // within 4 lanes, i + 2
    return add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  }
  static __m512 fold_last(__m512 a, __m512 b) {  // within 2 lanes, i + 1
    return add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
  }

  static float tree16(const Reg* parts) {
    Reg a = fold_halves(parts[0], parts[0]);
    a = fold_quarters(a, a);
    a = fold_pairs(a, a);
    return first(fold_last(a, a));
  }
  static float largest(Reg a) { return _mm512_reduce_max_ps(a); }

  // The trees of Q * 8 accumulators at once; out[i] = tree16(acc[i]) * scale.
  template <int Q>
  static void reduce(const Reg* acc, float scale, float* out) {
    const Reg none = zero();
    Reg v[16];
    // The folds leave sum 4 g + l in lane 4 l + g: take them in transposed order.
    for (int g = 0; g < 4; ++g) {
      for (int l = 0; l < 4; ++l) v[4 * g + l] = 4 * l + g < Q * 8 ? acc[4 * l + g] : none;
    }
    for (int i = 0; i < 8; ++i) v[i] = fold_halves(v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 4; ++i) v[i] = fold_quarters(v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 2; ++i) v[i] = fold_pairs(v[2 * i], v[2 * i + 1]);
    store(out, mul(fold_last(v[0], v[1]), set1(scale)));
  }

  static void decode_bf16(const std::byte* from, Reg* out) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static void decode_f16(const std::byte* from, Reg* out) {
    out[0] = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  // Shifted into binary16, whose exponent bias is larger by 8: value / 256.
  static void decode_fp8(const std::byte* from, Reg* out) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    out[0] =
        _mm512_cvtph_ps(_mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0xbfff))));
  }
  static void decode_int8(const std::byte* from, Reg* out) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    out[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
};

}  // namespace
}  // namespace fathom
