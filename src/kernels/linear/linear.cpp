#include "kernels/linear/linear.h"

#include <algorithm>
#include <cassert>

#include "kernels/dispatch.h"

namespace fathom {
namespace {

// Below this many products, waking the workers costs more than they save.
constexpr int64_t kWorthSharing = int64_t{1} << 15;
// Work is cut so that each thread gets several pieces, which evens out threads of unequal speed.
constexpr int64_t kPiecesPerThread = 6;
// Kernels work on 16 weight rows at a time, and decode weights again for each 96 rows of x.
constexpr int64_t kRowStep = 16;
constexpr int64_t kXStep = 96;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of weights in a piece. A piece of FP8 scales its activations once for each block of rows, so
// pieces are whole blocks where there are enough of them.
int64_t piece_rows(const WeightView& w, int64_t pieces) {
  const int64_t wanted = std::max<int64_t>(w.rows / pieces, 1);
  const int64_t block = w.format == WeightFormat::fp8_block ? w.block_rows : 128;
  if (wanted >= block && block % kRowStep == 0) return wanted / block * block;
  return ceil_div(wanted, kRowStep) * kRowStep;
}

}  // namespace

void linear(const KernelContext& context, Span2d<const float> x, const WeightView& w,
            Span2d<float> y) {
  assert(x.cols == w.cols && y.cols == w.rows && x.rows == y.rows);
  if (x.rows == 0 || w.rows == 0) return;
  const LinearKernels& kernels = *context.kernels().linear;
  const int64_t threads = context.pool().threads();
  if (threads == 1 || x.rows * w.rows * w.cols < kWorthSharing) {
    kernels.run({x, w, y, context.scratch(0)});
    return;
  }

  // Many activations are cut first: pieces of few weight rows would scale all of them too often.
  const int64_t pieces = threads * kPiecesPerThread;
  const int64_t rows = piece_rows(w, ceil_div(pieces, std::max<int64_t>(x.rows / kXStep, 1)));
  // The first piece ends where a block of the whole matrix ends.
  const int64_t begin = w.first_row % rows;
  const int64_t row_pieces = ceil_div(begin + w.rows, rows);
  const int64_t x_wanted = std::min(ceil_div(pieces, row_pieces), ceil_div(x.rows, kXStep));
  const int64_t x_rows = ceil_div(x.rows, x_wanted);
  const int64_t x_pieces = ceil_div(x.rows, x_rows);

  context.pool().parallel_for(row_pieces * x_pieces, [&](int64_t index, int worker) {
    const int64_t first = std::max<int64_t>(index / x_pieces * rows - begin, 0);
    const int64_t last = std::min((index / x_pieces + 1) * rows - begin, w.rows);
    const int64_t x_first = index % x_pieces * x_rows;
    const int64_t x_count = std::min(x_rows, x.rows - x_first);
    kernels.run({x.middle_rows(x_first, x_count), w.middle_rows(first, last - first),
                 y.middle_rows(x_first, x_count).middle_cols(first, last - first),
                 context.scratch(worker)});
  });
}

}  // namespace fathom
