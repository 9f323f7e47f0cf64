#include "kernels/combine/combine.h"

#include <cstring>
#include <map>

#include "kernels/linear/linear.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"
#include "tests/kernels/same_bits.h"

namespace fathom {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16,
                                     WeightFormat::fp8_block, WeightFormat::int8_row};

struct Shape {
  WeightFormat format = WeightFormat::f32;
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t block_rows = 128;
  int64_t block_cols = 128;
  int64_t first_row = 0;
};

// A weight in memory of exactly its size and at an odd address, with its values beside it.
class Weight {
 public:
  Weight(const Shape& asked, Random& random) : Weight(random, grid_of(asked)) {}
  const WeightView& view() const { return view_; }
  double value(int64_t r, int64_t c) const {
    return values_[static_cast<size_t>(r * view_.cols + c)];
  }

 private:
  // int8_row has one scale for each row.
  static Shape grid_of(Shape shape) {
    if (shape.format == WeightFormat::int8_row) {
      shape.block_rows = 1;
      shape.block_cols = shape.cols;
    }
    return shape;
  }
  Weight(Random& random, const Shape& s) : values_(static_cast<size_t>(s.rows * s.cols)) {
    const int64_t element = WeightView::element_bytes(s.format);
    bytes_.resize(static_cast<size_t>(s.rows * s.cols * element + 1));
    const int64_t scale_cols = (s.cols + s.block_cols - 1) / s.block_cols;
    const int64_t scale_rows = (s.first_row + s.rows + s.block_rows - 1) / s.block_rows;
    const std::vector<float> scales = random.floats(scale_rows * scale_cols, 0.001f, 0.01f);
    scales_.resize(scales.size() * 4 + 1);
    std::memcpy(scales_.data() + 1, scales.data(), scales.size() * 4);
    for (int64_t i = 0; i < s.rows * s.cols; ++i) {
      std::byte* to = bytes_.data() + 1 + i * element;
      double value = random.between(-1, 1);
      if (s.format == WeightFormat::f32) {
        const float v = static_cast<float>(value);
        std::memcpy(to, &v, 4);
        value = v;
      } else if (s.format == WeightFormat::bf16) {
        const uint16_t bits = float_to_bf16(static_cast<float>(value));
        std::memcpy(to, &bits, 2);
        value = bf16_to_float(bits);
      } else if (s.format == WeightFormat::f16) {
        // Also binary16's denormals.
        const uint16_t bits =
            float_to_fp16(static_cast<float>(value) * (i % 5 == 0 ? 0x1p-15f : 1.0f));
        std::memcpy(to, &bits, 2);
        value = fp16_to_float(bits);
      } else {
        uint8_t code = static_cast<uint8_t>(random.bits());
        const bool fp8 = s.format == WeightFormat::fp8_block;
        if (fp8 && fp8_e4m3_is_nan(code)) code = 0x01;
        *to = static_cast<std::byte>(code);
        const int64_t r = (s.first_row + i / s.cols) / s.block_rows;
        const int64_t c = i % s.cols / s.block_cols;
        value = (fp8 ? fp8_e4m3_to_float(code) : static_cast<int8_t>(code)) *
                double{scales[static_cast<size_t>(r * scale_cols + c)]};
      }
      values_[static_cast<size_t>(i)] = value;
    }
    view_.format = s.format;
    view_.rows = s.rows;
    view_.cols = s.cols;
    view_.data = bytes_.data() + 1;
    view_.scale = view_.has_scales() ? scales_.data() + 1 : nullptr;
    view_.scale_cols = scale_cols;
    view_.block_rows = s.block_rows;
    view_.block_cols = s.block_cols;
    view_.first_row = s.first_row;
  }

  std::vector<std::byte> bytes_;
  std::vector<std::byte> scales_;
  std::vector<double> values_;
  WeightView view_;
};

const KernelSet& reference() { return kernels_named("reference"); }

// y of combine() with a set and some threads; y's rows lie 3 floats apart from each other.
std::vector<float> run(const KernelSet& set, int threads, const std::vector<float>& p, int64_t n,
                       const WeightView& w, std::vector<float> y, CombineMode mode) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(4)};
  static std::map<std::pair<const KernelSet*, int>, KernelContext> contexts;
  const KernelContext& context =
      contexts.try_emplace({&set, threads}, set, pools[threads / 2]).first->second;
  combine(context, {p.data(), n, w.rows, w.rows + 1}, w, {y.data(), n, w.cols, w.cols + 3}, mode);
  return y;
}

std::vector<Shape> shapes(WeightFormat format) {
  return {
      {format, 1, 1},
      {format, 3, 5},
      {format, 17, 31},
      {format, 64, 128},
      {format, 65, 129},
      {format, 130, 200, 128, 128, 0},
      {format, 128, 512, 128, 128, 64},  // a head between two blocks
      {format, 100, 150, 128, 128, 60},
      {format, 37, 75, 16, 32, 5},  // small blocks, as test checkpoints have them
      {format, 20, 40, 3, 7, 1},
  };
}

TEST(Combine, IsTheProduct) {
  Random random(1);
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : shapes(format)) {
      const Weight w(shape, random);
      for (const CombineMode mode : {CombineMode::overwrite, CombineMode::accumulate}) {
        const int64_t n = 5;
        const std::vector<float> p = random.floats(n * (shape.rows + 1), -1, 1);
        const std::vector<float> old = random.floats(n * (shape.cols + 3), -1, 1);
        const std::vector<float> y = run(reference(), 1, p, n, w.view(), old, mode);
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t c = 0; c < shape.cols; ++c) {
            const size_t at = static_cast<size_t>(i * (shape.cols + 3) + c);
            double want = mode == CombineMode::accumulate ? old[at] : 0.0;
            double magnitude = std::fabs(want);
            for (int64_t r = 0; r < shape.rows; ++r) {
              const double part = p[static_cast<size_t>(i * (shape.rows + 1) + r)] * w.value(r, c);
              want += part;
              magnitude += std::fabs(part);
            }
            ASSERT_NEAR(y[at], want, 1e-6 * magnitude + 1e-9);
          }
        }
      }
    }
  }
}

TEST(Combine, FollowsTheCanonicalOrder) {
  Random random(2);
  const Weight w({WeightFormat::fp8_block, 200, 150, 128, 128, 100}, random);
  const std::vector<float> p = random.floats(201, -1, 1);
  const std::vector<float> y =
      run(reference(), 1, p, 1, w.view(), std::vector<float>(153), CombineMode::overwrite);
  std::vector<float> want(153);
  for (int64_t c = 0; c < 150; ++c) {
    for (int64_t r = 0; r < 200; ++r) {
      float scale;
      std::memcpy(&scale, w.view().scale + ((100 + r) / 128 * 2 + c / 128) * 4, 4);
      const uint8_t code = static_cast<uint8_t>(w.view().data[r * 150 + c]);
      const float weight = fp8_e4m3_to_float(code) / 256.0f;
      float& sum = want[static_cast<size_t>(c)];
      sum = std::fma(p[static_cast<size_t>(r)] * (scale * 256.0f), weight, sum);
    }
  }
  expect_same_bits(y, want);
}

TEST(Combine, AllSetsGiveTheSameBits) {
  Random random(3);
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : shapes(format)) {
      const Weight w(shape, random);
      for (const int64_t n : {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 17, 131}) {
        if (n == 131 && shape.rows * shape.cols > 20000) continue;
        const std::vector<float> p = random.floats(n * (shape.rows + 1) + 1, -1, 1);
        const std::vector<float> old = random.floats(n * (shape.cols + 3) + 1, -1, 1);
        for (const CombineMode mode : {CombineMode::overwrite, CombineMode::accumulate}) {
          const std::vector<float> want = run(reference(), 1, p, n, w.view(), old, mode);
          for (const KernelSet* set : available_kernels()) {
            for (const int threads : {1, 2, 4}) {
              SCOPED_TRACE(testing::Message() << set->name << " threads " << threads << " n " << n
                                              << " rows " << shape.rows << " cols " << shape.cols);
              expect_same_bits(run(*set, threads, p, n, w.view(), old, mode), want);
            }
          }
        }
      }
    }
  }
}

TEST(Combine, DecodesEveryCode) {
  std::vector<std::byte> all(65536 * 2 + 1);
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    std::memcpy(all.data() + 1 + 2 * i, &bits, 2);
  }
  std::vector<std::byte> codes(256);
  for (int i = 0; i < 256; ++i) codes[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  for (const KernelSet* set : available_kernels()) {
    SCOPED_TRACE(set->name);
    std::vector<float> got(65536);
    std::vector<float> want(65536);
    for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::f16}) {
      combine_reference.decode(format, all.data() + 1, 65536, want.data());
      set->combine->decode(format, all.data() + 1, 65536, got.data());
      expect_same_bits(got, want);
    }
    for (int count = 0; count <= 256; ++count) {
      std::vector<float> values(static_cast<size_t>(count));
      const std::vector<std::byte> exact(codes.begin(), codes.begin() + count);
      set->combine->decode(WeightFormat::fp8_block, exact.data(), count, values.data());
      for (int i = 0; i < count; ++i) {
        const uint8_t code = static_cast<uint8_t>(i);
        if (fp8_e4m3_is_nan(code)) continue;
        ASSERT_EQ(values[static_cast<size_t>(i)] * 256.0f, fp8_e4m3_to_float(code)) << i;
      }
      set->combine->decode(WeightFormat::int8_row, exact.data(), count, values.data());
      for (int i = 0; i < count; ++i) {
        ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<int8_t>(i)) << i;
      }
    }
  }
}

TEST(Combine, NoRowsGiveZeros) {
  Random random(4);
  WeightView w;
  w.cols = 20;
  const std::vector<float> p(10);
  for (const KernelSet* set : available_kernels()) {
    std::vector<float> want(46, 7.0f);
    const std::vector<float> y = run(*set, 1, p, 2, w, want, CombineMode::overwrite);
    for (int64_t i = 0; i < 2; ++i) std::fill_n(want.begin() + i * 23, 20, 0.0f);
    expect_same_bits(y, want);
  }
}

TEST(Heads, EqualTheSingleProducts) {
  Random random(5);
  for (const KernelSet* set : available_kernels()) {
    for (const int threads : {1, 2, 4}) {
      for (const int64_t count : {1, 3, 20}) {
        for (const int64_t n : {1, 2, 5, 17}) {
          for (const WeightFormat format : kFormats) {
            SCOPED_TRACE(testing::Message() << set->name << " " << threads << " " << count);
            ThreadPool pool(threads);
            const KernelContext context(*set, pool);
            // One matrix of all heads' rows, as kv_b_proj is.
            const int64_t rows = 24;
            const int64_t cols = 48;
            const Weight all({format, count * rows, cols, 16, 32, 0}, random);
            const std::vector<float> p = random.floats(n * count * rows, -1, 1);
            const std::vector<float> x = random.floats(n * count * cols, -1, 1);
            std::vector<float> folded(x.size());
            std::vector<float> linears(p.size());
            std::vector<float> want_folded(x.size());
            std::vector<float> want_linears(p.size());
            std::vector<HeadProduct> combines;
            std::vector<HeadProduct> dots;
            const auto part = [count, n](auto* data, int64_t h, int64_t width) {
              return Span2d(data + h * width, n, width, count * width);
            };
            for (int64_t h = 0; h < count; ++h) {
              const WeightView w = all.view().middle_rows(h * rows, rows);
              combines.push_back({part(p.data(), h, rows), w, part(folded.data(), h, cols)});
              dots.push_back({part(x.data(), h, cols), w, part(linears.data(), h, rows)});
              combine(context, part(p.data(), h, rows), w, part(want_folded.data(), h, cols),
                      CombineMode::overwrite);
              linear(context, part(x.data(), h, cols), w, part(want_linears.data(), h, rows));
            }
            combine_heads(context, combines);
            linear_heads(context, dots);
            expect_same_bits(folded, want_folded);
            expect_same_bits(linears, want_linears);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fathom
