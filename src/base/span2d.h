// A view of rows: the one way matrices are passed around.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

namespace fathom {

// rows x cols elements; row r begins at data + r * stride (stride counts elements, stride >= cols).
template <typename T>
struct Span2d {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Span2d() = default;
  Span2d(T* data_, int64_t rows_, int64_t cols_) : Span2d(data_, rows_, cols_, cols_) {}
  Span2d(T* data_, int64_t rows_, int64_t cols_, int64_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}
  // A writable view is also a read-only one.
  operator Span2d<const T>() const { return {data, rows, cols, stride}; }

  T* row(int64_t r) const {
    assert(r >= 0 && r < rows);
    return data + r * stride;
  }
  std::span<T> row_span(int64_t r) const { return {row(r), static_cast<size_t>(cols)}; }
  Span2d middle_rows(int64_t first, int64_t count) const {
    assert(first >= 0 && count >= 0 && first + count <= rows);
    return {data + first * stride, count, cols, stride};
  }
  Span2d middle_cols(int64_t first, int64_t count) const {
    assert(first >= 0 && count >= 0 && first + count <= cols);
    return {data + first, rows, count, stride};
  }
};

}  // namespace fathom
