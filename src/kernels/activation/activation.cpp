#include "kernels/activation/activation.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace fathom {

// Elements per task: some microseconds of work.
constexpr int64_t kChunk = 4096;

void silu_multiply(const KernelContext& context, Span2d<float> gate, Span2d<const float> up) {
  const auto kernel = context.kernels().activation->silu_multiply;
  const int64_t chunks = (gate.cols + kChunk - 1) / kChunk;
  const auto task = [&](int64_t index, int) {
    const int64_t r = index / chunks;
    const int64_t c = index % chunks * kChunk;
    kernel(gate.row(r) + c, up.row(r) + c, std::min(kChunk, gate.cols - c));
  };
  if (gate.rows * gate.cols <= 2 * kChunk) {
    for (int64_t i = 0; i < gate.rows * chunks; ++i) task(i, 0);
  } else {
    context.pool().parallel_for(gate.rows * chunks, task);
  }
}

}  // namespace fathom
