// What the stored values of a tensor say about it: numbers that are none, scales that cannot be,
// magnitudes that no weight has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace fathom {

// Something wrong with a tensor, by its element where it is one.
struct ValueProblem {
  bool in_scales = false;           // of an FP8 weight
  std::optional<uint64_t> element;  // the first one that is wrong
  std::string problem;
};

// Scales as a weight is multiplied with: finite and above 0. At most one problem of each kind.
std::vector<ValueProblem> scale_problems(std::span<const float> scales);

// Sums over an FP8 weight, block by block, so that scales need to be looked at only once. Bytes
// come in order, in pieces of any size.
class Fp8Scan {
 public:
  struct Shape {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t block_rows = 0;
    int64_t block_cols = 0;
  };
  explicit Fp8Scan(const Shape& shape);

  void add(std::span<const std::byte> codes);
  // With the weight's scales, or none where they are absent or wrong themselves: then magnitudes
  // are not judged.
  std::vector<ValueProblem> problems(std::span<const float> scales) const;

 private:
  uint64_t count_in(size_t block) const;

  Shape shape_;
  int64_t grid_cols_;
  uint64_t at_ = 0;
  std::optional<uint64_t> nan_;
  std::vector<uint64_t> sums_;  // [block]: of squares, in units of the smallest code's
};

// The same for BF16, F16 and F32. `is_matrix` says that the values should have the magnitude of
// weights; `may_be_zero` that all of them may be 0 (a bias).
class FloatScan {
 public:
  explicit FloatScan(Dtype dtype) : dtype_(dtype) {}
  void add(std::span<const std::byte> bytes);  // whole elements
  std::vector<ValueProblem> problems(bool is_matrix, bool may_be_zero) const;

 private:
  Dtype dtype_;
  uint64_t count_ = 0;
  std::optional<uint64_t> not_finite_;
  double squares_ = 0;
};

}  // namespace fathom
