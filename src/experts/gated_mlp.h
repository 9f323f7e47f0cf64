// The MLP of dense layers, shared experts and routed experts alike.
#pragma once

#include "base/buffer.h"
#include "base/span2d.h"
#include "kernels/context.h"
#include "kernels/weight_view.h"

namespace fathom {

struct GatedMlp {
  WeightView gate;  // [intermediate, hidden]
  WeightView up;    // [intermediate, hidden]
  WeightView down;  // [hidden, intermediate]
};

// y = down(silu(gate(x)) * up(x)); x, y [n, hidden]; `gate_rows` and `up_rows` are scratch with at
// least n rows of intermediate columns.
void gated_mlp(const KernelContext& context, Span2d<const float> x, const GatedMlp& mlp,
               Span2d<float> gate_rows, Span2d<float> up_rows, Span2d<float> y);

}  // namespace fathom
