// rms_norm() for any instruction set: include after one of the vector_*.h.
#pragma once

#include "kernels/norm/norm.h"

namespace fathom {
namespace {

// Some lanes at the end of a row: all, a part, or none.
Vector::Reg load_up_to(const float* from, int64_t count) {
  if (count >= Vector::kLanes) return Vector::load(from);
  return count > 0 ? Vector::load_some(from, count) : Vector::zero();
}

void row(const float* x, const float* weight, float eps, int64_t cols, float* y) {
  using Reg = Vector::Reg;
  Reg acc[Vector::kParts];
  for (int part = 0; part < Vector::kParts; ++part) acc[part] = Vector::zero();
  for (int64_t c = 0; c < cols; c += 16) {
    for (int part = 0; part < Vector::kParts; ++part) {
      const int64_t at = c + part * Vector::kLanes;
      const Reg v = load_up_to(x + at, cols - at);
      acc[part] = Vector::fma(v, v, acc[part]);
    }
  }
  const float mean = Vector::tree16(acc) / static_cast<float>(cols);
  const Reg inverse = Vector::set1(1.0f / Vector::square_root(mean + eps));
  int64_t c = 0;
  for (; c + Vector::kLanes <= cols; c += Vector::kLanes) {
    const Reg v = Vector::mul(Vector::load(x + c), inverse);
    Vector::store(y + c, Vector::mul(v, Vector::load(weight + c)));
  }
  if (c < cols) {
    const Reg v = Vector::mul(Vector::load_some(x + c, cols - c), inverse);
    Vector::store_some(y + c, Vector::mul(v, Vector::load_some(weight + c, cols - c)), cols - c);
  }
}

}  // namespace
}  // namespace fathom
