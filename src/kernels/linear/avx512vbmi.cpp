#if defined(__x86_64__)

#include "kernels/linear/avx512_isa.h"

namespace fathom {
namespace {

// Of a float that is an FP8 value / 256 only the upper two bytes are not zero. A table gives each
// of the two for the 128 codes without sign; a byte permutation looks up 64 codes in half a table.
struct Fp8Tables {
  alignas(64) uint8_t upper[128];
  alignas(64) uint8_t second[128];
  // order[p]: which of 64 weights stands at byte p, so that widening leaves them in natural order.
  alignas(64) uint8_t order[64];
};

constexpr Fp8Tables make_tables() {
  Fp8Tables tables = {};
  for (uint32_t code = 0; code < 128; ++code) {
    uint32_t bits = (code << 20) + (112u << 23);
    if (code < 8) {  // subnormal: code * 2^-17
      const uint32_t top = code >= 4 ? 2 : code >= 2 ? 1 : 0;
      bits = code == 0 ? 0 : ((110u + top) << 23) | ((code - (1u << top)) << (23 - top));
    }
    tables.upper[code] = static_cast<uint8_t>(bits >> 24);
    tables.second[code] = static_cast<uint8_t>(bits >> 16);
  }
  for (uint32_t vector = 0; vector < 4; ++vector) {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t byte = i / 4 * 16 + i % 4 * 2 + vector % 2 + vector / 2 * 8;
      tables.order[byte] = static_cast<uint8_t>(vector * 16 + i);
    }
  }
  return tables;
}

constexpr Fp8Tables kFp8 = make_tables();

// A constant that stays in its register: g++ would rather broadcast it again in every step, on the
// port that the permutations need.
__m512i keep(__m512i value) {
  asm("" : "+v"(value));
  return value;
}

struct Avx512Vbmi : Avx512 {
  template <WeightFormat F>
  static void decode(const std::byte* from, Reg* out) {
    if constexpr (F == WeightFormat::fp8_block) {
      const __m512i codes =
          _mm512_permutexvar_epi8(keep(_mm512_load_si512(kFp8.order)), _mm512_loadu_si512(from));
      __m512i upper;
      __m512i second;
      // Subnormals and zeros are rare: a weight in ten thousand.
      if (_mm512_testn_epi8_mask(codes, keep(_mm512_set1_epi8(0x78))) == 0) {
        // s eeee mmm becomes s 0111eee and e mmm 0000: bits moved by a matrix over GF(2), and the
        // bias' 0111 put in. Byte 7 - i of a matrix says which bits of the code make bit i.
        upper =
            _mm512_gf2p8affine_epi64_epi8(codes, keep(_mm512_set1_epi64(0x1020400000000080)), 0x38);
        second =
            _mm512_gf2p8affine_epi64_epi8(codes, keep(_mm512_set1_epi64(0x0000000001020408)), 0);
      } else {
        look_up(codes, upper, second);
      }
      const __m512i first_words = _mm512_unpacklo_epi8(second, upper);
      const __m512i last_words = _mm512_unpackhi_epi8(second, upper);
      const __m512i odd = keep(_mm512_set1_epi32(static_cast<int>(0xffff0000u)));
      out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(first_words, 16));
      out[1] = _mm512_castsi512_ps(_mm512_and_si512(first_words, odd));
      out[2] = _mm512_castsi512_ps(_mm512_slli_epi32(last_words, 16));
      out[3] = _mm512_castsi512_ps(_mm512_and_si512(last_words, odd));
    } else {
      Avx512::decode<F>(from, out);
    }
  }

  static void look_up(__m512i codes, __m512i& upper, __m512i& second) {
    const __mmask64 large = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(0x40));
    upper = _mm512_permutexvar_epi8(codes, _mm512_load_si512(kFp8.upper));
    upper = _mm512_mask_permutexvar_epi8(upper, large, codes, _mm512_load_si512(kFp8.upper + 64));
    second = _mm512_permutexvar_epi8(codes, _mm512_load_si512(kFp8.second));
    second =
        _mm512_mask_permutexvar_epi8(second, large, codes, _mm512_load_si512(kFp8.second + 64));
    // upper | (codes & 0x80)
    upper =
        _mm512_ternarylogic_epi32(upper, codes, _mm512_set1_epi8(static_cast<char>(0x80)), 0xf8);
  }
};

}  // namespace

const LinearKernels linear_avx512vbmi = {Blocked<Avx512Vbmi>::run};

}  // namespace fathom

#endif
