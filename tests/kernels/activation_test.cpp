#include "kernels/activation/activation.h"

#include <limits>

#include "numerics/elementary.h"
#include "tests/kernels/same_bits.h"

namespace fathom {
namespace {

std::vector<float> special_values() {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> all = {0.0f,      -0.0f,  1.0f,   -1.0f,        88.0f,  -88.0f,
                            89.5f,     -89.5f, 103.9f, -103.9f,      104.5f, -104.5f,
                            1e30f,     -1e30f, 1e-40f, -1e-40f,      kInf,   -kInf,
                            0x1p-149f, 3e38f,  -3e38f, std::nanf("")};
  return all;
}

TEST(Silu, IsTheFormula) {
  Random random(1);
  const std::vector<float> gate = random.floats(1000, -20, 20);
  const std::vector<float> up = random.floats(1000, -3, 3);
  std::vector<float> got = gate;
  activation_reference.silu_multiply(got.data(), up.data(), 1000);
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = gate[i] / (1.0 + std::exp(-static_cast<double>(gate[i]))) * up[i];
    EXPECT_NEAR(got[i], want, 1e-6 * std::fabs(want) + 1e-12);
    EXPECT_EQ(got[i], gate[i] * sigmoid_f32(gate[i]) * up[i]);
  }
}

TEST(Silu, AllSetsGiveTheSameBits) {
  Random random(2);
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    std::vector<float> gate = special_values();
    // Every sign and exponent, and many in the usual range: a million values.
    for (uint64_t b = 0; b < (uint64_t{1} << 32); b += 8191) {
      gate.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
    }
    while (gate.size() < 1000003) gate.push_back(random.between(-110, 110));
    const std::vector<float> up(gate.size(), 1.0f);
    std::vector<float> want = gate;
    const int64_t count = static_cast<int64_t>(gate.size());
    activation_reference.silu_multiply(want.data(), up.data(), count);
    set->activation->silu_multiply(gate.data(), up.data(), count);
    expect_same_bits(gate, want);
  }
}

TEST(Silu, TailsAndThreads) {
  Random random(3);
  for (const KernelSet* set : available_kernels()) {
    for (const int threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      const KernelContext context(*set, pool);
      for (const int64_t cols : {1, 2, 7, 15, 16, 17, 33, 130, 5000}) {
        for (const int64_t rows : {0, 1, 3, 17}) {
          SCOPED_TRACE(testing::Message() << set->name << " " << threads << " " << cols);
          const int64_t stride = cols + 3;
          std::vector<float> gate = random.floats(rows * stride + 1, -9, 9);
          const std::vector<float> up = random.floats(rows * stride + 1, -9, 9);
          std::vector<float> want = gate;
          for (int64_t r = 0; r < rows; ++r) {
            activation_reference.silu_multiply(want.data() + 1 + r * stride,
                                               up.data() + 1 + r * stride, cols);
          }
          silu_multiply(context, {gate.data() + 1, rows, cols, stride},
                        {up.data() + 1, rows, cols, stride});
          expect_same_bits(gate, want);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom
