#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace fathom {
namespace {

TEST(PoolThreads, HasTheSizeAskedFor) {
  EXPECT_EQ(ThreadPool(1).threads(), 1);
  EXPECT_EQ(ThreadPool(4).threads(), 4);
}

TEST(PoolThreads, CallsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 3, 17, 1000}) {
      std::vector<int> calls(static_cast<size_t>(count), 0);
      pool.parallel_for(count, [&](int64_t index, int) { ++calls[static_cast<size_t>(index)]; });
      EXPECT_EQ(calls, std::vector<int>(calls.size(), 1)) << threads << " threads, " << count;
    }
  }
}

TEST(PoolThreads, ANegativeCountIsAnEmptyLoop) {
  ThreadPool pool(2);
  bool called = false;
  pool.parallel_for(-5, [&](int64_t, int) { called = true; });
  EXPECT_FALSE(called);
}

TEST(PoolThreads, WorkersAreNumberedAndNeverShared) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  std::atomic<int> inside[kThreads] = {};
  std::atomic<int> wrong{0};
  pool.parallel_for(5000, [&](int64_t, int worker) {
    if (worker < 0 || worker >= kThreads) {
      ++wrong;
      return;
    }
    if (inside[worker].fetch_add(1) != 0) ++wrong;  // two tasks at once would share scratch memory
    inside[worker].fetch_sub(1);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(PoolThreads, UsesMoreThanOneThread) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  std::atomic<bool> met{false};
  // Two tasks that wait for each other can only both arrive on two threads.
  pool.parallel_for(2, [&](int64_t, int) {
    ++arrived;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (arrived < 2 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (arrived == 2) met = true;
  });
  EXPECT_TRUE(met);
}

TEST(PoolThreads, WhatTasksWroteIsSeenAfterTheLoop) {
  ThreadPool pool(3);
  std::vector<int64_t> values(257);
  for (int64_t round = 0; round < 200; ++round) {
    pool.parallel_for(static_cast<int64_t>(values.size()),
                      [&](int64_t i, int) { values[static_cast<size_t>(i)] = i * round; });
    const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
    ASSERT_EQ(sum, round * 257 * 256 / 2);
  }
}

TEST(PoolThreads, ManyShortLoops) {
  ThreadPool pool(4);
  std::atomic<int64_t> calls{0};
  for (int loop = 0; loop < 20000; ++loop) {
    pool.parallel_for(loop % 7,
                      [&](int64_t, int) { calls.fetch_add(1, std::memory_order_relaxed); });
  }
  int64_t expected = 0;
  for (int loop = 0; loop < 20000; ++loop) expected += loop % 7;
  EXPECT_EQ(calls, expected);
}

TEST(PoolThreads, LoopsAfterAPauseWakeTheSleepers) {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  for (int loop = 0; loop < 20; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    pool.parallel_for(8, [&](int64_t, int) { ++calls; });
  }
  EXPECT_EQ(calls, 160);
}

TEST(PoolThreads, PoolsComeAndGo) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool pool(1 + round % 5);
    std::atomic<int> calls{0};
    if (round % 3 != 0) pool.parallel_for(10, [&](int64_t, int) { ++calls; });
    EXPECT_EQ(calls, round % 3 != 0 ? 10 : 0);
  }
}

TEST(PoolThreads, TwoPoolsWorkSideBySide) {
  std::atomic<int64_t> sums[2] = {};
  std::thread other([&] {
    ThreadPool pool(2);
    for (int loop = 0; loop < 300; ++loop) {
      pool.parallel_for(20, [&](int64_t i, int) { sums[1] += i; });
    }
  });
  ThreadPool pool(2);
  for (int loop = 0; loop < 300; ++loop) {
    pool.parallel_for(20, [&](int64_t i, int) { sums[0] += i; });
  }
  other.join();
  EXPECT_EQ(sums[0], 300 * 190);
  EXPECT_EQ(sums[1], 300 * 190);
}

TEST(PoolThreads, TheFirstExceptionReachesTheCaller) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    try {
      pool.parallel_for(100, [](int64_t index, int) {
        if (index == 42) throw std::runtime_error("row 42");
      });
      FAIL() << "no exception with " << threads << " threads";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "row 42");
    }
  }
}

TEST(PoolThreads, AnExceptionEndsTheLoopEarlyAndThePoolGoesOn) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int64_t> calls{0};
    EXPECT_THROW(pool.parallel_for(int64_t{1} << 40,
                                   [&](int64_t, int) {
                                     if (++calls > 100) throw std::runtime_error("enough");
                                   }),
                 std::runtime_error);
    std::atomic<int> after{0};
    pool.parallel_for(100, [&](int64_t, int) { ++after; });
    EXPECT_EQ(after, 100);
  }
}

TEST(PoolThreads, EveryTaskMayThrow) {
  ThreadPool pool(4);
  EXPECT_THROW(
      pool.parallel_for(1000, [](int64_t, int) -> void { throw std::logic_error("each of them"); }),
      std::logic_error);
}

// Half the smallest normal number: a processor that flushes denormals returns 0.
float half_of(float value) {
  volatile float smallest = value;
  volatile float half = smallest * 0.5f;
  return half;
}

TEST(PoolThreads, DenormalsAreKeptOnEveryWorker) {
  ThreadPool pool(3);
  std::vector<float> halves(300);
  pool.parallel_for(300, [&](int64_t i, int) {
    halves[static_cast<size_t>(i)] = half_of(std::numeric_limits<float>::min());
  });
  for (const float half : halves) ASSERT_EQ(half, std::ldexp(1.0f, -127));
}

// Denormals flushed and another rounding, as some libraries leave the thread that called them.
void spoil_environment() {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0xa040u);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{1} << 24 | uint64_t{2} << 22));
#endif
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(PoolThreads, TheEnvironmentIsSetAgainAfterSomeoneChangedIt) {
  const float smallest = std::numeric_limits<float>::min();
  spoil_environment();
  const float spoilt = half_of(smallest);
  set_float_environment();
  const float kept = half_of(smallest);
  EXPECT_EQ(spoilt, 0.0f);
  EXPECT_EQ(kept, std::ldexp(1.0f, -127));
  volatile float third = 3.0f;
  EXPECT_EQ(1.0f / third, 0x1.555556p-2f);  // rounded up, to nearest
}
#endif

}  // namespace
}  // namespace fathom
