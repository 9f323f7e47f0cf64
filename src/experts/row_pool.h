// Rows of a matrix, lent out in contiguous pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/buffer.h"

namespace fathom {

class RowPool {
 public:
  RowPool(int64_t rows, int64_t cols) : rows_(rows, cols), used_(static_cast<size_t>(rows)) {}

  // The first of `count` neighbouring rows, -1 where there are none.
  int64_t take(int64_t count) {
    int64_t run = 0;
    for (size_t r = 0; r < used_.size(); ++r) {
      run = used_[r] ? 0 : run + 1;
      if (run < count) continue;
      const int64_t first = static_cast<int64_t>(r) + 1 - count;
      std::fill_n(used_.begin() + first, count, 1);
      return first;
    }
    return -1;
  }
  void give_back(int64_t first, int64_t count) { std::fill_n(used_.begin() + first, count, 0); }
  void give_back_all() { std::fill(used_.begin(), used_.end(), 0); }
  Span2d<float> rows(int64_t first, int64_t count) const {
    return rows_.view().middle_rows(first, count);
  }

 private:
  Matrix rows_;
  std::vector<char> used_;
};

}  // namespace fathom
