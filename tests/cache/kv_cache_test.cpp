#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"

namespace fathom {
namespace {

KvCacheLayout small_layout() { return {3, {KvFormat::f32, 5, 2}}; }

void write(KvSequence& sequence, int64_t position, std::byte value) {
  for (int64_t layer = 0; layer < sequence.layout().layers; ++layer) {
    std::memset(sequence.row(layer, position), static_cast<int>(value) + static_cast<int>(layer),
                static_cast<size_t>(sequence.layout().row.bytes()));
  }
}

void append(KvSequence& sequence, int64_t count, int value) {
  sequence.prepare(count);
  for (int64_t i = 0; i < count; ++i) {
    write(sequence, sequence.length() + i, static_cast<std::byte>(value));
  }
  sequence.commit(count);
}

TEST(KvCache, RowsOfAPageFollowEachOther) {
  KvPagePool pool(small_layout(), 10);
  KvSequence sequence(pool);
  append(sequence, 70, 1);
  EXPECT_EQ(sequence.page_count(), 2);
  EXPECT_EQ(sequence.row(1, 1) - sequence.row(1, 0), sequence.layout().row.bytes());
  std::vector<const std::byte*> blocks(2);
  sequence.block_pointers(2, blocks);
  EXPECT_EQ(blocks[0], sequence.row(2, 0));
  EXPECT_EQ(blocks[1], sequence.row(2, kPagePositions));
}

TEST(KvCache, AForkSharesPagesUntilItWrites) {
  KvPagePool pool(small_layout(), 10);
  KvSequence first(pool);
  append(first, 70, 1);
  KvSequence second = first;
  EXPECT_EQ(pool.pages_in_use(), 2);
  EXPECT_EQ(second.shared_pages(), 2);

  append(second, 1, 9);
  EXPECT_EQ(pool.pages_in_use(), 3) << "only the partly filled page is copied";
  EXPECT_EQ(first.row(0, 0), second.row(0, 0));
  EXPECT_NE(first.row(0, 69), second.row(0, 69));
  EXPECT_EQ(std::memcmp(first.row(2, 69), second.row(2, 69),
                        static_cast<size_t>(first.layout().row.bytes())),
            0);
  append(first, 1, 5);
  EXPECT_EQ(second.row(0, 70)[0], std::byte{9});
  EXPECT_EQ(first.row(0, 70)[0], std::byte{5});
}

TEST(KvCache, TruncateGivesPagesBack) {
  KvPagePool pool(small_layout(), 10);
  KvSequence sequence(pool);
  append(sequence, 200, 1);
  EXPECT_EQ(pool.pages_in_use(), 4);
  sequence.truncate(64);
  EXPECT_EQ(pool.pages_in_use(), 1);
  EXPECT_EQ(sequence.length(), 64);
  append(sequence, 1, 2);
  EXPECT_EQ(sequence.row(0, 64)[0], std::byte{2});
  sequence.truncate(0);
  EXPECT_EQ(pool.pages_in_use(), 0);
}

TEST(KvCache, TruncatingAForkLeavesTheOtherWhole) {
  KvPagePool pool(small_layout(), 10);
  KvSequence first(pool);
  append(first, 100, 1);
  KvSequence second = first;
  second.truncate(10);
  append(second, 5, 7);
  EXPECT_EQ(first.row(0, 10)[0], std::byte{1});
  EXPECT_EQ(second.row(0, 10)[0], std::byte{7});
  EXPECT_EQ(first.length(), 100);
}

TEST(KvCache, AFullPoolIsAnErrorAndLosesNothing) {
  KvPagePool pool(small_layout(), 2);
  KvSequence sequence(pool);
  append(sequence, 128, 1);
  EXPECT_THROW(sequence.prepare(1), Error);
  EXPECT_EQ(sequence.length(), 128);
  EXPECT_EQ(sequence.row(0, 127)[0], std::byte{1});
}

}  // namespace
}  // namespace fathom
