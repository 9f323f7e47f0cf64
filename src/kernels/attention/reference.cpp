#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "numerics/elementary.h"

namespace fathom {
namespace {

void load_rows(const KvRowLayout& layout, const std::byte* from, int64_t count, float* to,
               int64_t stride) {
  for (int64_t p = 0; p < count; ++p)
    load_kv_row(layout, from + p * layout.bytes(), to + p * stride);
}

void dots(const DotTile& t) {
  for (int64_t i = 0; i < t.n; ++i) {
    for (int64_t j = 0; j < t.rows; ++j) {
      const float* q = t.q + i * t.q_stride;
      const float* w = t.w + j * t.w_stride;
      float lane[16] = {};
      for (int64_t k = 0; k < t.width; ++k) lane[k % 16] = std::fma(w[k], q[k], lane[k % 16]);
      for (int width = 8; width > 0; width /= 2) {
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
      }
      t.out[i * t.out_stride + j] = lane[0] * t.scale;
    }
  }
}

void softmax(float* e, int64_t begin, int64_t end, SoftmaxState& state) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  float max = state.max;
  for (int64_t p = begin; p < end; ++p) max = e[p] > max ? e[p] : max;
  const float base = max == -kInf ? 0.0f : max;
  float lane[16] = {};
  for (int64_t p = 0; p < kAttentionBlock; ++p) {
    e[p] = p >= begin && p < end ? exp_f32(e[p] - base) : 0.0f;
    lane[p % 16] += e[p];
  }
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  state.factor = exp_f32(state.max - base);
  state.sum = state.sum * state.factor + lane[0];
  state.max = max;
}

}  // namespace

const AttentionKernels attention_reference = {load_rows, dots, softmax};

}  // namespace fathom
