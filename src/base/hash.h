// Checksums and fingerprints (XXH3): fast, the same on every machine, no defence against intent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fathom {

uint64_t hash64(std::span<const std::byte> bytes);

// 128 bits, which tell any two things apart that are not made to collide.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  // Adding up hashes gives a hash of the set, whatever its order.
  Hash128& operator+=(const Hash128& other);
  std::string hex() const;  // 32 digits
};
Hash128 hash128(std::string_view bytes);

// hash64() of what comes in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void add(std::span<const std::byte> bytes);
  uint64_t value() const;  // of all so far
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fathom
