#include "sample/sampler.h"

namespace fathom {
namespace {

// A bijection of 64-bit words in which every input bit reaches every output bit: two rounds of
// xor-shift and multiplication by an odd constant.
uint64_t scramble(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 29;
  x *= 0x9fb21c651e98df25u;
  x ^= x >> 32;
  return x;
}

}  // namespace

double random_unit(uint64_t seed, uint64_t choice, uint64_t position) {
  // Each number enters through its own scramble; the constants keep (0, 0, 0) away from the fixed
  // point 0 and the three places from being exchangeable.
  uint64_t x = scramble(seed + 0x243f6a8885a308d3u);
  x = scramble((x ^ choice) + 0x13198a2e03707345u);
  x = scramble((x ^ position) + 0xa4093822299f31d1u);
  return static_cast<double>(x >> 11) * 0x1p-53;
}

}  // namespace fathom
