#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/linear/blocked.h"

namespace fathom {
namespace {

// AVX2 with FMA and F16C.
struct Avx2 {
  using Reg = __m256;
  static constexpr int kParts = 2;
  static constexpr int kTileX = 3;  // 12 accumulators, 1 weight, 3 activations of 16 registers
  static constexpr int kVectors = 4;
  // At most 12 accumulators, so that decoding has registers.
  static constexpr int vector_rows(int n) { return n == 1 ? 4 : n <= 3 ? 2 : 1; }

  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg load(const float* from) { return _mm256_load_ps(from); }
  static void store(float* to, Reg value) { _mm256_store_ps(to, value); }
  static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static void prefetch(const void* at) { _mm_prefetch(at, _MM_HINT_T0); }
  static void prefetch_far(const void* at) { _mm_prefetch(at, _MM_HINT_T1); }

  template <WeightFormat F>
  static void decode16(const std::byte* from, Reg* out) {
    const __m128i* at = reinterpret_cast<const __m128i*>(from);
    if constexpr (F == WeightFormat::f32) {
      out[0] = _mm256_loadu_ps(reinterpret_cast<const float*>(from));
      out[1] = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 32));
    } else if constexpr (F == WeightFormat::bf16) {
      for (int i = 0; i < 2; ++i) {
        const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(at + i));
        out[i] = _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
      }
    } else if constexpr (F == WeightFormat::f16) {
      for (int i = 0; i < 2; ++i) out[i] = _mm256_cvtph_ps(_mm_loadu_si128(at + i));
    } else if constexpr (F == WeightFormat::int8_row) {
      for (int i = 0; i < 2; ++i) {
        const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * 8));
        out[i] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
      }
    } else {
      // The byte's sign stays on top and its exponent and mantissa move to those of binary16,
      // whose bias is larger by 8: the value divided by 256.
      const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(at)), 7);
      const __m256i words =
          _mm256_and_si256(shifted, _mm256_set1_epi16(static_cast<short>(0xbfff)));
      out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(words));
      out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
    }
  }

  template <WeightFormat F>
  static void decode(const std::byte* from, Reg* out) {
    if constexpr (F == WeightFormat::fp8_block) {
      // As decode16, but through memory: a conversion that loads its operand needs no shuffle, and
      // the one port that shuffles would be what everything waits for.
      alignas(32) __m128i halves[8];
      for (int i = 0; i < 4; ++i) {
        const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
        const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
        _mm256_store_si256(reinterpret_cast<__m256i*>(halves + i * 2),
                           _mm256_and_si256(words, _mm256_set1_epi16(static_cast<short>(0xbfff))));
      }
      asm("" : "+m"(halves));  // not to be replaced by moves between registers
      for (int i = 0; i < 8; ++i) out[i] = _mm256_cvtph_ps(halves[i]);
    } else {
      for (int i = 0; i < 4; ++i) decode16<F>(from + i * 16 * kBytes<F>, out + i * 2);
    }
  }

  template <int kBits>
  class LevelBlock {
   public:
    LevelBlock() = default;
    LevelBlock(const std::byte* from, const float* scales) {
      for (int i = 0; i < 2; ++i) codes_[i] = lanes(from, i);
      const __m256 levels = _mm256_load_ps(kLevels<kBits>.value);
      for (int i = 0; i < 2; ++i) tables_[i] = _mm256_mul_ps(levels, _mm256_set1_ps(scales[i]));
    }
    // A permutation heeds 3 bits of each index; of 4 the highest is the sign.
    template <int J>
    void get(Reg* out) const {
      for (int i = 0; i < 2; ++i) {
        out[i] = _mm256_permutevar8x32_ps(tables_[J / 4], _mm256_srli_epi32(codes_[i], kBits * J));
        if constexpr (kBits == 4) {
          const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(codes_[i], 28 - 4 * J));
          out[i] = _mm256_xor_ps(out[i], _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
        }
      }
    }

   private:
    // 8 lanes of the block.
    static __m256i lanes(const std::byte* from, int half) {
      const std::byte* at = from + half * 8 * kBits;
      const auto load = [](const std::byte* bytes) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
      };
      if constexpr (kBits == 4) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      } else if constexpr (kBits == 3) {
        // 12 bytes for each 4 lanes; the last 16 bytes are loaded 4 earlier, to stay in the block.
        const __m128i widen = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
        const __m128i later =
            _mm_setr_epi8(4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1);
        const __m128i low = _mm_shuffle_epi8(load(at), widen);
        const __m128i high = half == 0 ? _mm_shuffle_epi8(load(at + 12), widen)
                                       : _mm_shuffle_epi8(load(at + 8), later);
        return _mm256_set_m128i(high, low);
      } else {
        return _mm256_cvtepu16_epi32(load(at));
      }
    }
    __m256i codes_[2];
    __m256 tables_[2];
  };

  // 8 accumulators to 8 sums.
  static __m256 reduce8(const float* acc) {
    __m256 v[8];
    for (int i = 0; i < 8; ++i) v[i] = _mm256_add_ps(load(acc + i * 16), load(acc + i * 16 + 8));
    // Lanes i + 4, then i + 2, then i + 1, two vectors into one each time.
    for (int i = 0; i < 4; ++i) {
      const __m256 a = v[i];
      const __m256 b = v[i + 4];
      v[i] = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    for (int i = 0; i < 2; ++i) {
      const __m256 a = v[2 * i];
      const __m256 b = v[2 * i + 1];
      v[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(v[0], v[1], 0x88), _mm256_shuffle_ps(v[0], v[1], 0xdd));
  }

  static void reduce(const float* acc, float* out) {
    _mm256_storeu_ps(out, reduce8(acc));
    _mm256_storeu_ps(out + 8, reduce8(acc + 8 * 16));
  }
};

}  // namespace

const LinearKernels linear_avx2 = {Blocked<Avx2>::run};

}  // namespace fathom

#endif
