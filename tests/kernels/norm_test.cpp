#include "kernels/norm/norm.h"

#include "tests/kernels/same_bits.h"

namespace fathom {
namespace {

TEST(RmsNorm, IsTheFormula) {
  Random random(1);
  for (const int64_t cols : {1, 5, 64, 512, 7168}) {
    const std::vector<float> x = random.floats(cols, -3, 3);
    const std::vector<float> weight = random.floats(cols, 0.5, 2);
    std::vector<float> y(x.size());
    norm_reference.row(x.data(), weight.data(), 1e-6f, cols, y.data());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(cols) + 1e-6);
    for (size_t c = 0; c < x.size(); ++c) {
      EXPECT_NEAR(y[c], x[c] * inverse * weight[c], 1e-6 * std::fabs(y[c]) + 1e-9);
    }
  }
}

TEST(RmsNorm, ZerosStayZeros) {
  const std::vector<float> x(40, 0.0f);
  const std::vector<float> weight(40, 1.0f);
  for (const KernelSet* set : available_kernels()) {
    std::vector<float> y(40, 5.0f);
    set->norm->row(x.data(), weight.data(), 1e-6f, 40, y.data());
    expect_same_bits(y, x);
  }
}

TEST(RmsNorm, AllSetsGiveTheSameBits) {
  Random random(2);
  for (const KernelSet* set : available_kernels()) {
    for (const int threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      const KernelContext context(*set, pool);
      for (const int64_t cols : {1, 3, 4, 7, 8, 15, 16, 17, 31, 100, 513, 7168}) {
        for (const int64_t rows : {0, 1, 2, 17}) {
          SCOPED_TRACE(testing::Message() << set->name << " " << threads << " " << cols);
          const int64_t stride = cols + 5;
          std::vector<float> x = random.floats(rows * stride + 1, -1, 1);
          for (float& v : x) v = std::ldexp(v, static_cast<int>(random.below(20)) - 10);
          const std::vector<float> weight = random.floats(cols + 1, -2, 2);
          std::vector<float> want = x;
          for (int64_t r = 0; r < rows; ++r) {
            float* row = want.data() + 1 + r * stride;
            norm_reference.row(row, weight.data() + 1, 1e-6f, cols, row);
          }
          const Span2d<float> view(x.data() + 1, rows, cols, stride);
          rms_norm(context, view, weight.data() + 1, 1e-6f, view);  // in place
          expect_same_bits(x, want);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom
