#include "base/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace fathom {

uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Hash128 hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Hash128& Hash128::operator+=(const Hash128& other) {
  const uint64_t sum = low + other.low;
  high += other.high + (sum < low ? 1 : 0);
  low = sum;
  return *this;
}

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

struct Hasher::State {
  XXH3_state_t xxh;  // wants an alignment of 64, which operator new heeds
};

Hasher::Hasher() : state_(std::make_unique<State>()) { reset(); }
Hasher::~Hasher() = default;
void Hasher::reset() { XXH3_64bits_reset(&state_->xxh); }
void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}
uint64_t Hasher::value() const { return XXH3_64bits_digest(&state_->xxh); }

}  // namespace fathom
