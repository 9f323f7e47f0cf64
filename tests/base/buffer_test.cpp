#include "base/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace fathom {
namespace {

// Below and above the size from which blocks are mapped.
constexpr size_t kSizes[] = {1, 63, 64, 65, 4096, (4u << 20) - 65, 4u << 20, (4u << 20) + 1};

TEST(Buffer, IsAlignedZeroAndWritable) {
  for (const size_t size : kSizes) {
    const Buffer buffer(size);
    ASSERT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0u) << size;
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0xa5});
    EXPECT_EQ(buffer.bytes().back(), std::byte{0xa5});
  }
}

TEST(Buffer, TheTailIsReadableAndZero) {
  for (const size_t size : kSizes) {
    const Buffer buffer(size);
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0xff});
    for (size_t i = 0; i < Buffer::kReadableTail; ++i) {
      ASSERT_EQ(buffer.data()[size + i], std::byte{0}) << size << " + " << i;
    }
  }
}

TEST(Buffer, OfNoBytesHoldsNothing) {
  const Buffer buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_TRUE(buffer.bytes().empty());
}

TEST(Buffer, MovesLeaveOneOwner) {
  for (const size_t size : {size_t{100}, size_t{8} << 20}) {
    Buffer a(size);
    std::byte* data = a.data();
    data[0] = std::byte{7};
    Buffer b(std::move(a));
    EXPECT_EQ(b.data(), data);
    Buffer c(size_t{5} << 20);
    c = std::move(b);
    EXPECT_EQ(c.data(), data);
    EXPECT_EQ(c.size(), size);
    EXPECT_EQ(c.data()[0], std::byte{7});
  }
}

TEST(Buffer, WhatCannotBeHadIsAnError) {
  for (const size_t size :
       {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 63,
        std::numeric_limits<size_t>::max() / 2}) {
    try {
      const Buffer buffer(size);
      ADD_FAILURE() << "got " << size << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_NE(std::string(error.what()).find(std::to_string(size)), std::string::npos);
    }
  }
}

TEST(Array, HoldsItsCount) {
  const Array<float> array(10);
  EXPECT_EQ(array.size(), 10);
  EXPECT_EQ(array.span().size(), 10u);
  array[9] = 2.5f;
  EXPECT_EQ(array.span().back(), 2.5f);
  EXPECT_EQ(array.data()[0], 0.0f);
  EXPECT_EQ(Array<float>().size(), 0);
}

TEST(Matrix, RowsFollowEachOther) {
  const Matrix matrix(3, 5);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < 5; ++c) matrix.row(r)[c] = static_cast<float>(10 * r + c);
  }
  const Span2d<const float> view = matrix;
  EXPECT_EQ(view.rows, 3);
  EXPECT_EQ(view.cols, 5);
  EXPECT_EQ(view.stride, 5);
  EXPECT_EQ(view.row(2)[4], 24.0f);
  EXPECT_EQ(matrix.data()[7], 12.0f);
}

TEST(Span2d, PartsKeepTheStride) {
  const Matrix matrix(4, 6);
  for (int64_t i = 0; i < 24; ++i) matrix.data()[i] = static_cast<float>(i);
  const Span2d<float> part = matrix.view().middle_rows(1, 2).middle_cols(2, 3);
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.cols, 3);
  EXPECT_EQ(part.stride, 6);
  EXPECT_EQ(part.row(0)[0], 8.0f);
  EXPECT_EQ(part.row(1)[2], 16.0f);
  EXPECT_EQ(part.row_span(1).size(), 3u);
  part.row(1)[2] = -1.0f;
  EXPECT_EQ(matrix.row(2)[4], -1.0f);
  EXPECT_EQ(matrix.view().middle_rows(4, 0).rows, 0);
}

}  // namespace
}  // namespace fathom
