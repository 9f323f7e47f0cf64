// Stored values to floats, 16 at a time: include after one of the vector_*.h.
#pragma once

namespace fathom {
namespace {

// Calls decode16(from, registers) for 16 values at a time; the rest goes by way of a padded copy.
template <int kBytes, typename Decode16>
void decode_values(const std::byte* from, int64_t count, float* to, const Decode16& decode16) {
  Vector::Reg v[Vector::kParts];
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    decode16(from + i * kBytes, v);
    for (int part = 0; part < Vector::kParts; ++part) {
      Vector::store(to + i + part * Vector::kLanes, v[part]);
    }
  }
  if (i == count) return;
  std::byte padded[16 * kBytes] = {};
  float values[16];
  __builtin_memcpy(padded, from + i * kBytes, static_cast<size_t>(count - i) * kBytes);
  decode16(padded, v);
  for (int part = 0; part < Vector::kParts; ++part) {
    Vector::store(values + part * Vector::kLanes, v[part]);
  }
  __builtin_memcpy(to + i, values, static_cast<size_t>(count - i) * sizeof(float));
}

}  // namespace
}  // namespace fathom
