#include "checkpoint/fp8_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace fathom {
namespace {

TEST(Fp8Check, FindsTheFirstOfTheTwoCodes) {
  for (const size_t size : {1u, 2u, 15u, 63u, 4095u, 4096u, 4097u, 10000u}) {
    std::vector<std::byte> codes(size, std::byte{0x7e});
    EXPECT_EQ(find_fp8_nan(codes), std::nullopt);
    for (const size_t place : {size_t{0}, size / 2, size - 1}) {
      for (const int code : {0x7f, 0xff}) {
        codes[place] = static_cast<std::byte>(code);
        codes[size - 1] = static_cast<std::byte>(code);
        EXPECT_EQ(find_fp8_nan(codes), place);
        codes[place] = codes[size - 1] = std::byte{0xfe};
      }
    }
  }
  EXPECT_EQ(find_fp8_nan({}), std::nullopt);
}

TEST(Fp8Check, TakesAllOtherCodes) {
  for (int code = 0; code < 256; ++code) {
    const std::vector<std::byte> one(1, static_cast<std::byte>(code));
    EXPECT_EQ(find_fp8_nan(one).has_value(), code == 0x7f || code == 0xff) << code;
  }
}

// One element, as bits, of a dtype among ones that are finite; `skew` bytes off alignment.
template <typename Bits>
std::optional<uint64_t> found(Dtype dtype, Bits others, Bits one, size_t place, size_t count,
                              size_t skew) {
  std::vector<std::byte> bytes(skew + count * sizeof(Bits));
  for (size_t i = 0; i < count; ++i) {
    const Bits value = i == place ? one : others;
    std::memcpy(bytes.data() + skew + i * sizeof value, &value, sizeof value);
  }
  return find_not_finite(dtype, std::span(bytes).subspan(skew));
}

TEST(FiniteCheck, FindsNanAndInfinitiesOfEveryFormat) {
  for (const size_t count : {1u, 7u, 4096u, 9001u}) {
    for (const size_t place : {size_t{0}, count / 2, count - 1}) {
      for (const size_t skew : {0u, 1u, 2u}) {
        const auto half = [&](Dtype dtype, uint16_t others, uint16_t one) {
          return found<uint16_t>(dtype, others, one, place, count, skew);
        };
        for (const uint16_t bits : {0x7f80, 0xff80, 0x7f81, 0xffff}) {
          EXPECT_EQ(half(Dtype::bf16, 0x7f7f, bits), place);
        }
        for (const uint16_t bits : {0x7c00, 0xfc00, 0x7c01, 0xffff}) {
          EXPECT_EQ(half(Dtype::f16, 0xfbff, bits), place);
        }
        for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu}) {
          EXPECT_EQ(found<uint32_t>(Dtype::f32, 0xff7fffffu, bits, place, count, skew), place);
        }
        EXPECT_EQ(half(Dtype::bf16, 0xff7f, 0x0001), std::nullopt);
        EXPECT_EQ(half(Dtype::f16, 0x7bff, 0x8000), std::nullopt);
        EXPECT_EQ(found<uint32_t>(Dtype::f32, 0x7f7fffffu, 0u, place, count, skew), std::nullopt);
      }
    }
  }
  EXPECT_EQ(find_not_finite(Dtype::f32, {}), std::nullopt);
}

}  // namespace
}  // namespace fathom
