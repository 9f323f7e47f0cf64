#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Hash, IsXxh3) {
  // The algorithm's own values for the empty input with seed 0.
  EXPECT_EQ(hash64({}), 0x2d06800538d394c2U);
  EXPECT_EQ(hash128("").hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesGiveWhatTheWholeGives) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  Hasher hasher;
  for (size_t at = 0; at < text.size(); at += 333) hasher.add(bytes_of(text.substr(at, 333)));
  EXPECT_EQ(hasher.value(), hash64(bytes_of(text)));
  hasher.reset();
  EXPECT_EQ(hasher.value(), hash64({}));
}

TEST(Hash, ASumDoesNotDependOnTheOrder) {
  Hash128 one = hash128("a"), other = hash128("b");
  one += hash128("b");
  other += hash128("a");
  EXPECT_EQ(one.hex(), other.hex());
  Hash128 carry{~uint64_t{0}, 0};
  carry += Hash128{1, 0};
  EXPECT_EQ(carry.hex(), "00000000000000010000000000000000");
}

}  // namespace
}  // namespace fathom
