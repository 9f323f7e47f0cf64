// silu_multiply() for any instruction set: include after one of the vector_*.h.
#pragma once

#include "kernels/activation/activation.h"
#include "kernels/activation/vector_exp.h"

namespace fathom {
namespace {

Vector::Reg silu(Vector::Reg gate, Vector::Reg up) {
  const Vector::Reg one = Vector::set1(1.0f);
  const Vector::Reg e = vector_exp(Vector::minus_abs(gate));
  const Vector::Reg sigmoid =
      Vector::div(Vector::where_negative(gate, e, one), Vector::add(one, e));
  return Vector::mul(Vector::mul(gate, sigmoid), up);
}

void silu_multiply(float* gate, const float* up, int64_t count) {
  int64_t i = 0;
  for (; i + Vector::kLanes <= count; i += Vector::kLanes) {
    Vector::store(gate + i, silu(Vector::load(gate + i), Vector::load(up + i)));
  }
  if (i < count) {
    const int64_t some = count - i;
    Vector::store_some(
        gate + i, silu(Vector::load_some(gate + i, some), Vector::load_some(up + i, some)), some);
  }
}

}  // namespace
}  // namespace fathom
