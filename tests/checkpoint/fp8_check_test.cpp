#include "checkpoint/fp8_check.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace fathom
