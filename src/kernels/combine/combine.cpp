#include "kernels/combine/combine.h"

#include <algorithm>
#include <cstring>

#include "kernels/dispatch.h"
#include "kernels/linear/linear.h"

namespace fathom {
namespace {

// A worker's scratch holds a panel of decoded weights, then the scaled activations.
constexpr int64_t kPanelFloats = int64_t{1} << 19;
constexpr int64_t kScaledFloats = int64_t{1} << 19;
static_assert((kPanelFloats + kScaledFloats) * 4 <= int64_t{KernelContext::kScratchBytes});

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The factor that stands in for a block's scale: decoded FP8 bytes count as value / 256.
float block_factor(const WeightView& w, int64_t block_row, int64_t block_col) {
  float scale;
  std::memcpy(&scale, w.scale + (block_row * w.scale_cols + block_col) * 4, sizeof scale);
  return w.format == WeightFormat::fp8_block ? scale * 256.0f : scale;
}

// One task of combine(): rows [i0, i1) of p and y, columns [c0, c1) of w.
struct CombineTask {
  const CombineKernels& kernels;
  const HeadProduct& head;
  CombineMode mode;
  int64_t strip;  // columns of a full task
  int64_t i0, i1, c0, c1;
  float* panel;
  float* scaled;

  static constexpr int64_t kPanel = 8192;  // floats decoded at a time, for the first-level cache
  static constexpr int64_t kBatch = 128;   // rows of p in a task

  int64_t depth() const { return kPanel / strip; }  // rows of w decoded at a time

  void run() const {
    const WeightView& w = head.w;
    const int64_t element = WeightView::element_bytes(w.format);
    if (w.rows == 0 && mode == CombineMode::overwrite) {
      for (int64_t i = i0; i < i1; ++i) std::fill(head.y.row(i) + c0, head.y.row(i) + c1, 0.0f);
    }
    for (int64_t r0 = 0; r0 < w.rows; r0 += depth()) {
      const int64_t r1 = std::min(r0 + depth(), w.rows);
      for (int64_t r = r0; r < r1; ++r) {
        kernels.decode(w.format, w.data + r * w.row_bytes() + c0 * element, c1 - c0,
                       panel + (r - r0) * strip);
      }
      UpdateTile tile;
      tile.w_stride = strip;
      tile.y_stride = head.y.stride;
      tile.n = i1 - i0;
      tile.rows = r1 - r0;
      tile.accumulate = mode == CombineMode::accumulate || r0 > 0;
      if (!w.has_scales()) {
        tile.p = head.p.row(i0) + r0;
        tile.p_stride = head.p.stride;
        update(tile, c0, c1);
        continue;
      }
      for (int64_t c = c0; c < c1;) {  // one block column at a time
        const int64_t block_col = c / w.block_cols;
        const int64_t end = std::min(c1, (block_col + 1) * w.block_cols);
        scale_rows(r0, r1, block_col);
        tile.p = scaled;
        tile.p_stride = depth();
        update(tile, c, end);
        c = end;
      }
    }
  }

  void update(UpdateTile& tile, int64_t c, int64_t end) const {
    tile.w = panel + (c - c0);
    tile.y = head.y.row(i0) + c;
    tile.cols = end - c;
    kernels.update(tile);
  }

  // scaled[i][r - r0] = p[i][r] * factor of r's block.
  void scale_rows(int64_t r0, int64_t r1, int64_t block_col) const {
    for (int64_t r = r0; r < r1;) {
      const int64_t block_row = (head.w.first_row + r) / head.w.block_rows;
      const int64_t end = std::min(r1, (block_row + 1) * head.w.block_rows - head.w.first_row);
      const float factor = block_factor(head.w, block_row, block_col);
      for (int64_t i = i0; i < i1; ++i) {
        const float* from = head.p.row(i);
        float* to = scaled + (i - i0) * depth();
        for (int64_t k = r; k < end; ++k) to[k - r0] = from[k] * factor;
      }
      r = end;
    }
  }
};

// Columns per task. Wide strips read a weight's rows in long pieces, which counts where each byte
// serves few rows of p; narrow ones keep a deep panel, and all threads busy.
constexpr int64_t kNarrow = 128;
constexpr int64_t kWide = 512;
static_assert(kWide * 8 <= CombineTask::kPanel && CombineTask::kPanel <= kPanelFloats);
static_assert(CombineTask::kBatch * (CombineTask::kPanel / kNarrow) <= kScaledFloats);

void combine_all(const KernelContext& context, std::span<const HeadProduct> heads,
                 CombineMode mode) {
  int64_t cols = 0;
  int64_t n = 0;
  for (const HeadProduct& h : heads) {
    cols = std::max(cols, h.w.cols);
    n = std::max(n, h.p.rows);
  }
  const int64_t head_count = static_cast<int64_t>(heads.size());
  const bool wide = n <= 4 && head_count * divide_up(cols, kWide) >= 4 * context.pool().threads();
  const int64_t strip = wide ? kWide : kNarrow;
  const int64_t strips = divide_up(cols, strip);
  const int64_t batches = divide_up(n, CombineTask::kBatch);
  context.pool().parallel_for(head_count * strips * batches, [&](int64_t index, int worker) {
    const HeadProduct& head = heads[static_cast<size_t>(index / (strips * batches))];
    const int64_t i0 = index / strips % batches * CombineTask::kBatch;
    const int64_t c0 = index % strips * strip;
    if (i0 >= head.p.rows || c0 >= head.w.cols) return;
    float* panel = reinterpret_cast<float*>(context.scratch(worker));
    const CombineTask task{*context.kernels().combine,
                           head,
                           mode,
                           strip,
                           i0,
                           std::min(i0 + CombineTask::kBatch, head.p.rows),
                           c0,
                           std::min(c0 + strip, head.w.cols),
                           panel,
                           panel + kPanelFloats};
    task.run();
  });
}

}  // namespace

void combine(const KernelContext& context, Span2d<const float> p, const WeightView& w,
             Span2d<float> y, CombineMode mode) {
  const HeadProduct one{p, w, y};
  combine_all(context, {&one, 1}, mode);
}

void combine_heads(const KernelContext& context, std::span<const HeadProduct> heads) {
  combine_all(context, heads, CombineMode::overwrite);
}

void linear_heads(const KernelContext& context, std::span<const HeadProduct> heads) {
  // Rows of w per task: whole heads where they are many, else few enough for every thread to work.
  constexpr int64_t kFewRows = 32;
  const bool many = static_cast<int64_t>(heads.size()) >= 4 * context.pool().threads();
  int64_t chunks = 0;
  for (const HeadProduct& h : heads) {
    chunks = std::max(chunks, many ? 1 : divide_up(h.w.rows, kFewRows));
  }
  const int64_t count = static_cast<int64_t>(heads.size()) * chunks;
  context.pool().parallel_for(count, [&](int64_t index, int worker) {
    const HeadProduct& head = heads[static_cast<size_t>(index / chunks)];
    const int64_t r0 = many ? 0 : index % chunks * kFewRows;
    if (r0 >= head.w.rows) return;
    const int64_t rows = many ? head.w.rows : std::min(kFewRows, head.w.rows - r0);
    context.kernels().linear->run({head.p, head.w.middle_rows(r0, rows),
                                   head.y.middle_cols(r0, rows), context.scratch(worker)});
  });
}

}  // namespace fathom
