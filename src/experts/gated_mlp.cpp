#include "experts/gated_mlp.h"

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"

namespace fathom {

void gated_mlp(const KernelContext& context, Span2d<const float> x, const GatedMlp& mlp,
               Span2d<float> gate_rows, Span2d<float> up_rows, Span2d<float> y) {
  const Span2d<float> gate = gate_rows.middle_rows(0, x.rows).middle_cols(0, mlp.gate.rows);
  const Span2d<float> up = up_rows.middle_rows(0, x.rows).middle_cols(0, mlp.up.rows);
  linear(context, x, mlp.gate, gate);
  linear(context, x, mlp.up, up);
  silu_multiply(context, gate, up);
  linear(context, gate, mlp.down, y);
}

}  // namespace fathom
