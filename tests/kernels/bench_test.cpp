#include "kernels/bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace fathom {
namespace {

// Nothing here looks at how quick anything is.
void expect_whole(const KernelBenchResult& r) {
  SCOPED_TRACE(r.kernel + " " + r.shape);
  for (const double value : {r.value, r.limit, r.ratio, r.busy}) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_GT(value, 0);
  }
  EXPECT_TRUE(r.unit == "GB/s" || r.unit == "GFLOP/s") << r.unit;
  EXPECT_TRUE(r.limit_name == "read bandwidth" || r.limit_name == "FMA peak") << r.limit_name;
}

TEST(Bench, LimitsComeFirstAndEveryResultIsWhole) {
  for (const int threads : {1, 2}) {
    const std::vector<KernelBenchResult> results =
        bench_kernels(best_kernels(), threads, 0.001, "linear fp8_block 7168x2048 16");
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[0].kernel, "read bandwidth");
    EXPECT_EQ(results[0].unit, "GB/s");
    EXPECT_EQ(results[1].kernel, "FMA peak");
    EXPECT_EQ(results[1].unit, "GFLOP/s");
    EXPECT_EQ(results[0].ratio, 1);
    EXPECT_EQ(results[1].ratio, 1);
    EXPECT_EQ(results[2].kernel, "linear fp8_block");
    EXPECT_EQ(results[2].shape, "7168x2048");
    EXPECT_EQ(results[2].n, 16);
    EXPECT_EQ(results[2].unit, "GFLOP/s");
    for (const KernelBenchResult& r : results) expect_whole(r);
  }
}

TEST(Bench, EveryKindOfKernelIsTimed) {
  for (const char* kernel : {"combine fp8_block 128x512 1", "attention bf16 4096x576 1",
                             "rms_norm 7168", "silu_multiply 18432"}) {
    const std::vector<KernelBenchResult> results = bench_kernels(best_kernels(), 2, 0.001, kernel);
    ASSERT_GT(results.size(), 2u);
    for (size_t i = 2; i < results.size(); ++i) {
      EXPECT_EQ(std::string(kernel).rfind(results[i].kernel, 0), 0u) << results[i].kernel;
      expect_whole(results[i]);
    }
  }
}

TEST(Bench, WhatIsNotThereIsNamed) {
  try {
    bench_kernels(best_kernels(), 1, 0.001, "linear fp4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("linear fp4"), std::string::npos);
  }
}

}  // namespace
}  // namespace fathom
