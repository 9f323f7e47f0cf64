// exp_f32, lane by lane with the same bits: include after one of the vector_*.h.
#pragma once

#include "numerics/elementary_constants.h"

namespace fathom {
namespace {

Vector::Reg vector_exp(Vector::Reg x) {
  using namespace elementary;
  using Reg = Vector::Reg;
  x = Vector::max(Vector::set1(kExpLow), x);
  x = Vector::min(Vector::set1(kExpHigh), x);
  const Reg t = Vector::fma(x, Vector::set1(kLog2e), Vector::set1(kRoundMagic));
  const Reg n = Vector::sub(t, Vector::set1(kRoundMagic));
  Reg r = Vector::fnma(n, Vector::set1(kLn2High), x);
  r = Vector::fnma(n, Vector::set1(kLn2Low), r);
  Reg q = Vector::fma(Vector::set1(kExp6), r, Vector::set1(kExp5));
  q = Vector::fma(q, r, Vector::set1(kExp4));
  q = Vector::fma(q, r, Vector::set1(kExp3));
  q = Vector::fma(q, r, Vector::set1(kExp2));
  const Reg p = Vector::add(Vector::fma(q, Vector::mul(r, r), r), Vector::set1(1.0f));
  return Vector::scale_by_power(p, t, n);
}

}  // namespace
}  // namespace fathom
