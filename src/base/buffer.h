// Memory for weights, caches and scratch: aligned, zeroed, with a readable tail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "base/span2d.h"

namespace fathom {

// Bytes that begin on a cache line and can be read up to kReadableTail bytes past their end, so
// that a kernel may load a whole vector at the end of a row. Large blocks come as huge pages where
// the system gives them. Contents are zero at first. Throws Error(io) when memory is refused.
class Buffer {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kReadableTail = 64;

  Buffer() = default;
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  size_t mapped_ = 0;  // bytes to unmap; 0 where the block came from the allocator
};

// A fixed number of T in a Buffer.
template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  explicit Array(int64_t count) : buffer_(static_cast<size_t>(count) * sizeof(T)), count_(count) {}
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) const { return data()[i]; }
  std::span<T> span() const { return {data(), static_cast<size_t>(count_)}; }

 private:
  Buffer buffer_;
  int64_t count_ = 0;
};

// An owned rows x cols matrix of float, rows contiguous.
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t cols) : values_(rows * cols), rows_(rows), cols_(cols) {}
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  float* data() const { return values_.data(); }
  float* row(int64_t r) const { return values_.data() + r * cols_; }
  Span2d<float> view() const { return {values_.data(), rows_, cols_}; }
  operator Span2d<float>() const { return view(); }
  operator Span2d<const float>() const { return view(); }

 private:
  Array<float> values_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

}  // namespace fathom
