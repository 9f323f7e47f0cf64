#include "kernels/linear/linear.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"

namespace fathom {
namespace {

constexpr WeightFormat kFormats[] = {
    WeightFormat::f32,      WeightFormat::bf16, WeightFormat::f16,  WeightFormat::fp8_block,
    WeightFormat::int8_row, WeightFormat::int4, WeightFormat::int3, WeightFormat::int2};

// Every implementation of linear that this processor runs, also those that no set has taken.
std::vector<std::pair<std::string, const LinearKernels*>> fast_kernels() {
  std::vector<std::pair<std::string, const LinearKernels*>> all;
  for (const KernelSet* set : available_kernels()) {
    if (set->linear == &linear_reference) continue;
    all.emplace_back(set->name, set->linear);
#if defined(__x86_64__)
    if (set->linear == &linear_avx512vbmi) all.emplace_back("avx512 without vbmi", &linear_avx512);
#endif
  }
  return all;
}

enum class Magnitudes { usual, extreme, no_subnormal_codes };

struct Shape {
  WeightFormat format = WeightFormat::f32;
  int64_t n = 1;
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t block_rows = 128;
  int64_t block_cols = 128;
  int64_t first_row = 0;
  int64_t misalign = 0;  // bytes
  int64_t x_gap = 0;     // floats between rows of x
  int64_t y_gap = 0;
  Magnitudes magnitudes = Magnitudes::usual;
};

// A product with its operands in memory of exactly their size, so that a sanitizer sees any read or
// write outside.
class Problem {
 public:
  explicit Problem(const Shape& asked) : shape_(asked), random_(7) {
    if (asked.format == WeightFormat::int8_row) {  // one scale for each row
      shape_.block_rows = 1;
      shape_.block_cols = asked.cols;
    }
    const Shape& shape = shape_;
    view_.format = shape.format;
    view_.rows = shape.rows;
    view_.cols = shape.cols;
    view_.scale_cols = (shape.cols + shape.block_cols - 1) / shape.block_cols;
    view_.block_rows = shape.block_rows;
    view_.block_cols = shape.block_cols;
    const bool levels = level_bits(shape.format) > 0;
    if (levels) view_ = WeightView::levels(shape.format, shape.rows, shape.cols, nullptr, nullptr);
    view_.first_row = shape.first_row;
    weights_.resize(static_cast<size_t>(shape.rows * view_.row_bytes() + shape.misalign));
    if (levels) {
      for (std::byte& byte : weights_) byte = static_cast<std::byte>(random_() >> 8);
    } else {
      for (int64_t i = 0; i < shape.rows * shape.cols; ++i) put_weight(i);
    }
    const int64_t whole_rows = shape.first_row + shape.rows;
    const int64_t scale_rows = (whole_rows + view_.block_rows - 1) / view_.block_rows;
    const int64_t scale_bytes = levels ? 2 : 4;
    scales_.resize(
        static_cast<size_t>(scale_rows * view_.scale_cols * scale_bytes + shape.misalign));
    for (int64_t i = 0; i < scale_rows * view_.scale_cols; ++i) {
      float scale = std::ldexp(1.0f + uniform(), -9);
      // Of a row, or a group, of zeros.
      if (shape.format != WeightFormat::fp8_block && i % 7 == 2) scale = 0;
      std::byte* at = scales_.data() + shape.misalign + i * scale_bytes;
      const uint16_t bits = float_to_bf16(scale);
      if (levels) {
        std::memcpy(at, &bits, 2);
      } else {
        std::memcpy(at, &scale, 4);
      }
    }
    x_.resize(static_cast<size_t>(shape.n * shape.cols + (shape.n - 1) * shape.x_gap));
    for (float& value : x_) value = activation();

    view_.data = weights_.data() + shape.misalign;
    if (view_.has_scales()) view_.scale = scales_.data() + shape.misalign;
  }

  const WeightView& view() const { return view_; }
  Span2d<const float> x() const {
    return {x_.data(), shape_.n, shape_.cols, shape_.cols + shape_.x_gap};
  }
  std::vector<float> empty_y() const {
    return std::vector<float>(
        static_cast<size_t>(shape_.n * shape_.rows + (shape_.n - 1) * shape_.y_gap), 12345.0f);
  }
  Span2d<float> y_view(std::vector<float>& y) const {
    return {y.data(), shape_.n, shape_.rows, shape_.rows + shape_.y_gap};
  }
  std::vector<float> run(const LinearKernels& kernels) {
    std::vector<float> y = empty_y();
    // Old contents of the scratch must not matter.
    std::memset(scratch_.data(), 0xff, scratch_.size());
    kernels.run({x(), view_, y_view(y), scratch_.data()});
    return y;
  }

 private:
  float uniform() { return static_cast<float>(random_() >> 8) * 0x1p-24f; }
  float normal() { return uniform() + uniform() + uniform() - 1.5f; }
  float activation() {
    if (shape_.magnitudes != Magnitudes::extreme) return normal();
    switch (random_() % 6) {
      case 0:
        return std::ldexp(normal(), -140);
      case 1:
        return std::ldexp(normal(), 110);
      case 2:
        return 0.0f;
      case 3:
        return -0.0f;
      case 4:
        return std::ldexp(normal(), -100);
      default:
        return normal();
    }
  }
  void put_weight(int64_t i) {
    std::byte* at =
        weights_.data() + shape_.misalign + i * WeightView::element_bytes(shape_.format);
    const float value = shape_.magnitudes == Magnitudes::extreme ? activation() : normal() * 0.05f;
    switch (shape_.format) {
      case WeightFormat::f32:
        std::memcpy(at, &value, 4);
        break;
      case WeightFormat::bf16: {
        const uint16_t bits = float_to_bf16(value);
        std::memcpy(at, &bits, 2);
        break;
      }
      case WeightFormat::f16: {
        uint16_t bits = float_to_fp16(value);
        if (shape_.magnitudes == Magnitudes::extreme) {  // any finite pattern
          bits = static_cast<uint16_t>(random_());
          if ((bits & 0x7c00u) == 0x7c00u) bits ^= 0x4000u;
        }
        std::memcpy(at, &bits, 2);
        break;
      }
      case WeightFormat::fp8_block: {
        auto code = static_cast<uint8_t>(random_());
        if (fp8_e4m3_is_nan(code)) code = 0;
        if (shape_.magnitudes == Magnitudes::no_subnormal_codes && (code & 0x78) == 0) code |= 0x08;
        *at = static_cast<std::byte>(code);
        break;
      }
      case WeightFormat::int8_row:
        *at = static_cast<std::byte>(random_());  // -128 too, which is never stored
        break;
      default:  // int4, int3, int2: any bytes
        break;
    }
  }

  Shape shape_;
  std::mt19937 random_;
  std::vector<std::byte> weights_, scales_;
  std::vector<float> x_;
  WeightView view_;
  Buffer scratch_{KernelContext::kScratchBytes};
};

std::string describe(const Shape& s) {
  return fmt::format("format {} n {} rows {} cols {} blocks {}x{} first_row {} misalign {}",
                     static_cast<int>(s.format), s.n, s.rows, s.cols, s.block_rows, s.block_cols,
                     s.first_row, s.misalign);
}

// Compares bits, so that -0 differs from 0; gaps between rows of y must be untouched.
void expect_same_bits(const std::vector<float>& expected, const std::vector<float>& got,
                      const std::string& what) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(got[i]))
        << what << ": element " << i << ": " << expected[i] << " and " << got[i];
  }
}

void expect_all_equal(const Shape& shape) {
  Problem problem(shape);
  const std::vector<float> expected = problem.run(linear_reference);
  for (const auto& [name, kernels] : fast_kernels()) {
    expect_same_bits(expected, problem.run(*kernels), name + " " + describe(shape));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Linear, ReferenceIsNearDoublePrecision) {
  for (const WeightFormat format : kFormats) {
    Shape shape{.format = format, .n = 3, .rows = 40, .cols = 300};
    shape.block_rows = 32;
    shape.block_cols = 48;
    shape.first_row = 21;
    Problem problem(shape);
    const std::vector<float> y = problem.run(linear_reference);
    const WeightView& w = problem.view();
    for (int64_t j = 0; j < shape.n; ++j) {
      for (int64_t r = 0; r < shape.rows; ++r) {
        double sum = 0;
        double size = 0;
        for (int64_t k = 0; k < shape.cols; ++k) {
          const std::byte* row = w.data + r * w.row_bytes();
          const std::byte* at = row + k * w.element_bytes(format);
          double weight = 0;
          uint16_t half = 0;
          float single = 0;
          if (level_bits(format) > 0) {
            weight = level_value(row, w.scale + (21 + r) * w.scale_cols * 2, level_bits(format), k);
          } else if (format == WeightFormat::fp8_block) {
            std::memcpy(&single, w.scale + ((21 + r) / 32 * w.scale_cols + k / 48) * 4, 4);
            weight = double{fp8_e4m3_to_float(static_cast<uint8_t>(*at))} * single;
          } else if (format == WeightFormat::int8_row) {
            std::memcpy(&single, w.scale + (21 + r) * 4, 4);
            weight = double{single} * static_cast<int8_t>(*at);
          } else if (format == WeightFormat::f32) {
            std::memcpy(&single, at, 4);
            weight = single;
          } else {
            std::memcpy(&half, at, 2);
            weight = format == WeightFormat::bf16 ? bf16_to_float(half) : fp16_to_float(half);
          }
          sum += weight * problem.x().row(j)[k];
          size += std::abs(weight * problem.x().row(j)[k]);
        }
        ASSERT_NEAR(y[static_cast<size_t>(j * shape.rows + r)], sum, size * 3e-6)
            << describe(shape);
      }
    }
  }
}

TEST(Linear, SmallShapesAllFormats) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t cols :
         {1, 2, 15, 16, 17, 31, 48, 63, 64, 65, 100, 127, 128, 129, 255, 257}) {
      for (const int64_t n : {1, 2, 3, 6, 7}) {
        for (const int64_t rows : {1, 3, 4, 5, 16, 21}) {
          expect_all_equal({.format = format, .n = n, .rows = rows, .cols = cols});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Linear, EveryCountOfRows) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t n :
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64, 100}) {
      expect_all_equal({.format = format, .n = n, .rows = 37, .cols = 531});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Linear, GridsOfOtherBlocksAndFirstRows) {
  for (const int64_t block : {1, 3, 16, 20, 32, 64, 128, 200}) {
    for (const int64_t first_row : {0, 1, 19, 127, 130}) {
      for (const int64_t n : {1, 2, 17}) {
        Shape shape{.format = WeightFormat::fp8_block, .n = n, .rows = 139, .cols = 203};
        shape.block_rows = block;
        shape.block_cols = 211 % block + 5;
        shape.first_row = first_row;
        expect_all_equal(shape);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Linear, MisalignedDataAndStrides) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t misalign : {1, 2, 3, 5, 13, 31, 63}) {
      for (const int64_t n : {1, 4, 9}) {
        Shape shape{.format = format, .n = n, .rows = 35, .cols = 267};
        shape.misalign = misalign;
        shape.x_gap = 3;
        shape.y_gap = 11;
        shape.first_row = 100;
        expect_all_equal(shape);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Linear, HugeTinyAndSignedZero) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t n : {1, 2, 8, 17}) {
      Shape shape{.format = format, .n = n, .rows = 50, .cols = 77};
      shape.magnitudes = Magnitudes::extreme;
      expect_all_equal(shape);
      if (HasFatalFailure()) return;
    }
  }
}

// Sums that underflow to -0 show whether padding takes part as the order says.
TEST(Linear, UnderflowToMinusZero) {
  for (const int64_t cols : {1, 16, 17, 64, 70}) {
    for (const int64_t n : {1, 3}) {
      const std::vector<float> w(static_cast<size_t>(20 * cols), -0x1p-100f);
      const std::vector<float> x(static_cast<size_t>(n * cols), 0x1p-100f);
      WeightView view;
      view.rows = 20;
      view.cols = cols;
      view.data = reinterpret_cast<const std::byte*>(w.data());
      const Buffer scratch(KernelContext::kScratchBytes);
      std::vector<float> expected(static_cast<size_t>(n * 20));
      linear_reference.run({{x.data(), n, cols}, view, {expected.data(), n, 20}, scratch.data()});
      for (const auto& [name, kernels] : fast_kernels()) {
        std::vector<float> got(expected.size(), 1.0f);
        kernels->run({{x.data(), n, cols}, view, {got.data(), n, 20}, scratch.data()});
        expect_same_bits(expected, got, name);
      }
    }
  }
}

// What every implementation makes of n rows of ones and 256 rows of weights: expected(c) in column
// c.
template <typename Expected>
void expect_in_every_row(const WeightView& view, int64_t n, const Expected& expected) {
  const std::vector<float> x(static_cast<size_t>(n * 256), 1.0f);
  const Buffer scratch(KernelContext::kScratchBytes);
  auto all = fast_kernels();
  all.emplace_back("reference", &linear_reference);
  for (const auto& [name, kernels] : all) {
    std::vector<float> y(static_cast<size_t>(n * 256), -1.0f);
    kernels->run({{x.data(), n, 256}, view, {y.data(), n, 256}, scratch.data()});
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], expected(i % 256)) << name << " " << i;
  }
}

TEST(Linear, EveryFp8Code) {
  // Weight row c holds code c at column c and zeros elsewhere: every output is one product.
  for (const int64_t n : {1, 2, 7}) {
    std::vector<std::byte> codes(256 * 256);
    for (size_t c = 0; c < 256; ++c) {
      if (!fp8_e4m3_is_nan(static_cast<uint8_t>(c))) codes[c * 256 + c] = static_cast<std::byte>(c);
    }
    const std::vector<float> scales(4, 1.0f);
    WeightView view;
    view.format = WeightFormat::fp8_block;
    view.rows = 256;
    view.cols = 256;
    view.data = codes.data();
    view.scale = reinterpret_cast<const std::byte*>(scales.data());
    view.scale_cols = 2;
    expect_in_every_row(view, n, [](size_t c) {
      const auto code = static_cast<uint8_t>(c);
      return fp8_e4m3_is_nan(code) ? 0.0f : fp8_e4m3_to_float(code);
    });
  }
}

TEST(Linear, EveryInt8Byte) {
  // As EveryFp8Code; the scales tell the rows apart.
  for (const int64_t n : {1, 2, 7}) {
    std::vector<std::byte> bytes(256 * 256);
    std::vector<float> scales(256);
    for (size_t c = 0; c < 256; ++c) {
      bytes[c * 256 + c] = static_cast<std::byte>(c);
      scales[c] = 1.0f + 0.25f * static_cast<float>(c);
    }
    const WeightView view = WeightView::int8_rows(
        256, 256, bytes.data(), reinterpret_cast<const std::byte*>(scales.data()));
    expect_in_every_row(view, n, [&scales](size_t c) {
      return static_cast<float>(static_cast<int8_t>(c)) * scales[c];
    });
  }
}

// Implementations may take another way where a run of codes holds no subnormal.
TEST(Linear, Fp8WithoutSubnormals) {
  for (const int64_t cols : {64, 100, 1024}) {
    for (const int64_t n : {1, 3, 9}) {
      Shape shape{.format = WeightFormat::fp8_block, .n = n, .rows = 70, .cols = cols};
      shape.magnitudes = Magnitudes::no_subnormal_codes;
      expect_all_equal(shape);
      if (HasFatalFailure()) return;
    }
  }
}

// Shapes of the released model, some of their rows; the last ones are too wide to pack at once.
TEST(Linear, WideShapes) {
  for (const int64_t n : {1, 5, 16, 100}) {
    for (const int64_t cols : {1536, 7168, 18432}) {
      Shape shape{.format = WeightFormat::fp8_block, .n = n, .rows = 20, .cols = cols};
      shape.first_row = 120;
      expect_all_equal(shape);
      if (HasFatalFailure()) return;
    }
  }
  expect_all_equal({.format = WeightFormat::fp8_block, .n = 1, .rows = 3, .cols = 600003});
  expect_all_equal({.format = WeightFormat::bf16, .n = 2, .rows = 150, .cols = 100003});
  expect_all_equal({.format = WeightFormat::f32, .n = 100, .rows = 300, .cols = 2000});
  for (const int64_t n : {1, 2, 17, 100}) {
    expect_all_equal({.format = WeightFormat::int8_row, .n = n, .rows = 150, .cols = 7168});
  }
  for (const int64_t n : {1, 17, 100}) {
    expect_all_equal({.format = WeightFormat::int4, .n = n, .rows = 40, .cols = 8960});
    expect_all_equal({.format = WeightFormat::int3, .n = n, .rows = 20, .cols = 7168});
  }
}

TEST(Linear, ThreadsDoNotChangeBits) {
  for (const WeightFormat format : kFormats) {
    if (format == WeightFormat::int3 || format == WeightFormat::int2) continue;  // cut as int4 is
    for (const int64_t n : {0, 1, 3, 130}) {
      for (const int64_t rows : {1, 100, 300}) {
        Shape shape{.format = format, .n = std::max<int64_t>(n, 1), .rows = rows, .cols = 391};
        shape.first_row = 77;
        shape.y_gap = 5;
        Problem problem(shape);
        const std::vector<float> expected = problem.run(linear_reference);
        for (const KernelSet* set : available_kernels()) {
          for (const int threads : {1, 2, 4}) {
            ThreadPool pool(threads);
            const KernelContext context(*set, pool);
            std::vector<float> y = problem.empty_y();
            linear(context, problem.x().middle_rows(0, n), problem.view(),
                   problem.y_view(y).middle_rows(0, n));
            expect_same_bits(n == 0 ? problem.empty_y() : expected, y,
                             fmt::format("{} {} threads {}", set->name, threads, describe(shape)));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Linear, NoColumnsGiveZeros) {
  const Buffer scratch(KernelContext::kScratchBytes);
  WeightView view;
  view.rows = 5;
  for (const auto& [name, kernels] : fast_kernels()) {
    std::vector<float> y(10, 3.0f);
    kernels->run({{nullptr, 2, 0}, view, {y.data(), 2, 5}, scratch.data()});
    for (const float value : y) EXPECT_EQ(value, 0.0f) << name;
  }
}

}  // namespace
}  // namespace fathom
