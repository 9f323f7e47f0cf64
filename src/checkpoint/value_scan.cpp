#include "checkpoint/value_scan.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/fp8_check.h"
#include "numerics/fp8_e4m3.h"
#include "numerics/half.h"

namespace fathom {
namespace {

// Root mean squares. Weights of trained models lie between 0.001 and 1, whatever their width; the
// limits leave room for odd ones. Scales that were inverted are off by more than a million.
constexpr double kMostOfWeights = 100;
constexpr double kLeastOfWeights = 1e-7;
constexpr double kMostOfVectors = 1e4;  // norms and biases

// The smallest code is 2^-9, so squares are whole multiples of 2^-18: 26 bits and a block's
// number of elements stay far from 64.
constexpr double kUnit = 0x1p-18;

std::array<uint64_t, 256> squares_of_codes() {
  std::array<uint64_t, 256> squares{};
  for (size_t code = 0; code < squares.size(); ++code) {
    if (fp8_e4m3_is_nan(static_cast<uint8_t>(code))) continue;
    const double value = fp8_e4m3_to_float(static_cast<uint8_t>(code));
    squares[code] = static_cast<uint64_t>(value * value / kUnit);
  }
  return squares;
}

double root_mean(double squares, uint64_t count) {
  return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0;
}

template <typename Element, typename Convert>
double sum_of_squares(std::span<const std::byte> bytes, const Convert& convert) {
  double sum = 0;
  for (size_t at = 0; at + sizeof(Element) <= bytes.size(); at += sizeof(Element)) {
    Element element;
    std::memcpy(&element, bytes.data() + at, sizeof element);
    const double value = convert(element);
    sum += value * value;
  }
  return sum;
}

}  // namespace

std::vector<ValueProblem> scale_problems(std::span<const float> scales) {
  struct Kind {
    const char* name;
    uint64_t count = 0;
    uint64_t first = 0;
  };
  std::array<Kind, 3> kinds = {{{"not finite"}, {"0"}, {"negative"}}};
  for (size_t i = 0; i < scales.size(); ++i) {
    const float scale = scales[i];
    if (std::isfinite(scale) && scale > 0) continue;
    Kind& kind = kinds[!std::isfinite(scale) ? 0 : scale == 0 ? 1 : 2];
    if (kind.count++ == 0) kind.first = i;
  }
  std::vector<ValueProblem> problems;
  for (const Kind& kind : kinds) {
    if (kind.count == 0) continue;
    problems.push_back({true, kind.first,
                        fmt::format("{} of {} scales {} {}", kind.count, scales.size(),
                                    kind.count == 1 ? "is" : "are", kind.name)});
  }
  return problems;
}

Fp8Scan::Fp8Scan(const Shape& shape)
    : shape_(shape), grid_cols_((shape.cols + shape.block_cols - 1) / shape.block_cols) {
  const int64_t grid_rows = (shape.rows + shape.block_rows - 1) / shape.block_rows;
  sums_.resize(static_cast<size_t>(grid_rows * grid_cols_));
}

void Fp8Scan::add(std::span<const std::byte> codes) {
  static const std::array<uint64_t, 256> kSquares = squares_of_codes();
  if (!nan_) {
    if (const auto nan = find_fp8_nan(codes)) nan_ = at_ + *nan;
  }
  const auto* code = reinterpret_cast<const uint8_t*>(codes.data());
  for (size_t left = codes.size(); left > 0;) {
    const auto row = static_cast<int64_t>(at_) / shape_.cols;
    const auto col = static_cast<int64_t>(at_) % shape_.cols;
    const int64_t block_end =
        std::min((col / shape_.block_cols + 1) * shape_.block_cols, shape_.cols);
    const size_t count = std::min(left, static_cast<size_t>(block_end - col));
    // Two sums, so that one addition need not wait for the other.
    uint64_t even = 0;
    uint64_t odd = 0;
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
      even += kSquares[code[i]];
      odd += kSquares[code[i + 1]];
    }
    if (i < count) even += kSquares[code[i]];
    sums_[static_cast<size_t>(row / shape_.block_rows * grid_cols_ + col / shape_.block_cols)] +=
        even + odd;
    code += count;
    left -= count;
    at_ += count;
  }
}

uint64_t Fp8Scan::count_in(size_t block) const {
  const int64_t row = static_cast<int64_t>(block) / grid_cols_ * shape_.block_rows;
  const int64_t col = static_cast<int64_t>(block) % grid_cols_ * shape_.block_cols;
  return static_cast<uint64_t>(std::min(shape_.block_rows, shape_.rows - row) *
                               std::min(shape_.block_cols, shape_.cols - col));
}

std::vector<ValueProblem> Fp8Scan::problems(std::span<const float> scales) const {
  std::vector<ValueProblem> problems;
  if (nan_) problems.push_back({false, nan_, "an FP8 code that is no number"});
  if (at_ == 0) return problems;
  if (std::all_of(sums_.begin(), sums_.end(), [](uint64_t sum) { return sum == 0; })) {
    problems.push_back({false, std::nullopt, "every weight is 0: the data were never written"});
    return problems;
  }
  if (scales.size() != sums_.size()) return problems;
  double multiplied = 0;
  double divided = 0;
  std::optional<uint64_t> large;
  uint64_t large_blocks = 0;
  double largest = 0;
  for (size_t block = 0; block < sums_.size(); ++block) {
    const double scale = scales[block];
    const double squares = static_cast<double>(sums_[block]) * kUnit;
    multiplied += squares * scale * scale;
    divided += squares / (scale * scale);
    const double of_block = root_mean(squares * scale * scale, count_in(block));
    if (of_block <= kMostOfWeights) continue;
    if (large_blocks++ == 0) large = block;
    largest = std::max(largest, of_block);
  }
  const double size = root_mean(multiplied, at_);
  const double inverse = root_mean(divided, at_);
  const bool inverse_fits = inverse >= kLeastOfWeights && inverse <= kMostOfWeights;
  const bool wrong_way = (size < kLeastOfWeights || 2 * large_blocks > sums_.size());
  if (wrong_way && inverse_fits) {
    problems.push_back(
        {true, std::nullopt,
         fmt::format("weights have a root mean square of {:.3g}, and {:.3g} with the scales "
                     "inverted: they were stored the wrong way round",
                     size, inverse)});
  } else if (size < kLeastOfWeights) {
    problems.push_back(
        {true, std::nullopt,
         fmt::format("weights have a root mean square of {:.3g}, which is absurdly small", size)});
  } else if (large) {
    problems.push_back(
        {true, large,
         fmt::format("{} of {} blocks of weights have an absurd root mean square, up to {:.3g}",
                     large_blocks, sums_.size(), largest)});
  }
  return problems;
}

void FloatScan::add(std::span<const std::byte> bytes) {
  if (!not_finite_) {
    if (const auto found = find_not_finite(dtype_, bytes)) not_finite_ = count_ + *found;
  }
  count_ += bytes.size() / static_cast<uint64_t>(dtype_bytes(dtype_));
  if (dtype_ == Dtype::bf16) {
    squares_ += sum_of_squares<uint16_t>(bytes, bf16_to_float);
  } else if (dtype_ == Dtype::f16) {
    squares_ += sum_of_squares<uint16_t>(bytes, fp16_to_float);
  } else {
    squares_ += sum_of_squares<float>(bytes, [](float value) { return value; });
  }
}

std::vector<ValueProblem> FloatScan::problems(bool is_matrix, bool may_be_zero) const {
  std::vector<ValueProblem> problems;
  if (count_ == 0) return problems;
  if (not_finite_) {
    problems.push_back({false, not_finite_, "a value that is not finite"});
    return problems;
  }
  const double size = root_mean(squares_, count_);
  if (size == 0) {
    if (!may_be_zero) {
      problems.push_back({false, std::nullopt, "every value is 0: the data were never written"});
    }
  } else if (size > (is_matrix ? kMostOfWeights : kMostOfVectors) ||
             (is_matrix && size < kLeastOfWeights)) {
    problems.push_back(
        {false, std::nullopt,
         fmt::format("values have a root mean square of {:.3g}, which is absurdly {}", size,
                     size > 1 ? "large" : "small")});
  }
  return problems;
}

}  // namespace fathom
