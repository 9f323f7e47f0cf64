#include "kernels/norm/norm.h"

#include "kernels/dispatch.h"

namespace fathom {

// Below this many elements starting the threads costs more than they save.
constexpr int64_t kWorthThreads = 32768;

void rms_norm(const KernelContext& context, Span2d<const float> x, const float* weight, float eps,
              Span2d<float> y) {
  const auto row = context.kernels().norm->row;
  const auto task = [&](int64_t r, int) { row(x.row(r), weight, eps, x.cols, y.row(r)); };
  if (x.rows * x.cols < kWorthThreads) {
    for (int64_t r = 0; r < x.rows; ++r) task(r, 0);
  } else {
    context.pool().parallel_for(x.rows, task);
  }
}

}  // namespace fathom
