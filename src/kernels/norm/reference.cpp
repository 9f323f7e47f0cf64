#include <cmath>

#include "kernels/norm/norm.h"

namespace fathom {
namespace {

void row(const float* x, const float* weight, float eps, int64_t cols, float* y) {
  float lane[16] = {};
  for (int64_t c = 0; c < cols; ++c) lane[c % 16] = std::fma(x[c], x[c], lane[c % 16]);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  const float mean = lane[0] / static_cast<float>(cols);
  const float inverse = 1.0f / std::sqrt(mean + eps);
  for (int64_t c = 0; c < cols; ++c) y[c] = (x[c] * inverse) * weight[c];
}

}  // namespace

const NormKernels norm_reference = {row};

}  // namespace fathom
