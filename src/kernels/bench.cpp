#include "kernels/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>

#include "base/buffer.h"
#include "base/system.h"
#include "base/threads.h"
#include "kernels/context.h"
#include "kernels/limits/limits.h"
#include "kernels/linear/linear.h"

namespace fathom {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{3} << 29;  // several times the largest caches
constexpr uint64_t kPiece = uint64_t{1} << 20;      // read at a time by one thread
// A timing takes a few milliseconds: short enough that some are not disturbed on a busy machine.
constexpr uint64_t kReadBytes = uint64_t{1} << 25;
constexpr double kBurstOperations = 1e9;  // of one timing, where shapes allow

const LimitKernels& limits_of(const KernelSet& set) {
#if defined(__x86_64__)
  if (set.name == std::string_view("avx2")) return limits_avx2;
  if (set.name == std::string_view("avx512")) return limits_avx512;
#elif defined(__aarch64__)
  if (set.name == std::string_view("neon")) return limits_neon;
#endif
  (void)set;
  return limits_reference;
}

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Limits {
  double bytes_per_second = 0;
  double operations_per_second = 0;
};

// Memory full of weights, from which matrices are cut one after the other.
class Bench {
 public:
  Bench(const KernelSet& set, int threads)
      : limits_(limits_of(set)), pool_(threads), context_(set, pool_), memory_(memory_bytes()) {
    // Bytes that are plain numbers near 1 in every format: no denormal, infinity or NaN slows them.
    std::minstd_rand random(1);
    const auto pattern = std::min<size_t>(memory_.size(), size_t{1} << 22);
    for (size_t i = 0; i < pattern; ++i) {
      memory_.data()[i] = static_cast<std::byte>(0x38u | ((random() >> 8) & 0x87u));
    }
    pool_.parallel_for(static_cast<int64_t>(memory_.size() / pattern), [&](int64_t i, int) {
      if (i > 0)
        std::copy_n(memory_.data(), pattern, memory_.data() + pattern * static_cast<size_t>(i));
    });
    scales_ = Array<float>(kMaxScales);
    std::fill_n(scales_.data(), kMaxScales, 0x1p-9f);
  }

  // One timing of each limit, the second over `operations`; the best so far is kept in `best`.
  void time_limits(double operations, Limits& best) {
    const double read = seconds_of([&] {
      const std::byte* from = take(kReadBytes);
      pool_.parallel_for(static_cast<int64_t>(kReadBytes / kPiece), [&](int64_t i, int) {
        sink_ ^= limits_.read(from + static_cast<uint64_t>(i) * kPiece, kPiece);
      });
    });
    best.bytes_per_second = std::max(best.bytes_per_second, static_cast<double>(kReadBytes) / read);
    const double round = static_cast<double>(limits_.operations_per_round * pool_.threads());
    const auto rounds = static_cast<int64_t>(operations / round) + 1;
    const double multiply = seconds_of([&] {
      pool_.parallel_for(pool_.threads(), [&](int64_t, int) {
        sink_ ^= static_cast<uint64_t>(limits_.multiply_add(rounds));
      });
    });
    const double rate = round * static_cast<double>(rounds) / multiply;
    best.operations_per_second = std::max(best.operations_per_second, rate);
  }

  struct Shape {
    WeightFormat format;
    const char* format_name;
    int64_t rows;
    int64_t cols;
  };

  KernelBenchResult time_linear(const Shape& shape, int64_t n, double budget, Limits& overall) {
    WeightView w;
    w.format = shape.format;
    w.rows = shape.rows;
    w.cols = shape.cols;
    w.scale = reinterpret_cast<const std::byte*>(scales_.data());
    w.scale_cols = (shape.cols + w.block_cols - 1) / w.block_cols;
    Matrix x(n, shape.cols);
    Matrix all_y(n, shape.rows);
    for (int64_t i = 0; i < n * shape.cols; ++i) x.data()[i] = static_cast<float>(i % 17) - 8.0f;

    // A timing covers several matrices where one is quick, and some rows of one where it is slow:
    // rows do not depend on each other, and are as many as keep every thread at whole blocks.
    const double row_operations = 2.0 * static_cast<double>(n * w.cols);
    const int64_t least_rows = 128 * pool_.threads();
    const auto wanted_rows = static_cast<int64_t>(kBurstOperations / row_operations);
    if (n > 1) w.rows = std::min(w.rows, std::max(least_rows, wanted_rows / 128 * 128));
    const auto bytes = static_cast<uint64_t>(w.rows * w.row_bytes());
    const uint64_t repeats = n > 1 ? 1 : std::max<uint64_t>(1, kReadBytes / bytes);
    const double operations = row_operations * static_cast<double>(w.rows);
    Span2d<float> y = {all_y.data(), n, w.rows};
    Limits limits;
    double fastest = INFINITY;
    double spent = 0;
    for (int round = 0; round == 0 || (spent < budget && round < 1000); ++round) {
      spent += seconds_of([&] { time_limits(operations, limits); });
      const double seconds = seconds_of([&] {
        for (uint64_t i = 0; i < repeats; ++i) {
          w.data = take(bytes);
          linear(context_, x, w, y);
        }
      });
      fastest = std::min(fastest, seconds / static_cast<double>(repeats));
      spent += seconds;
    }
    overall.bytes_per_second = std::max(overall.bytes_per_second, limits.bytes_per_second);
    overall.operations_per_second =
        std::max(overall.operations_per_second, limits.operations_per_second);

    const double read_time = static_cast<double>(bytes) / limits.bytes_per_second;
    const double multiply_time = operations / limits.operations_per_second;
    KernelBenchResult result;
    result.kernel = fmt::format("linear {}", shape.format_name);
    result.shape = fmt::format("{}x{}", shape.rows, shape.cols);
    result.n = n;
    const double work = n == 1 ? static_cast<double>(bytes) : operations;
    result.unit = n == 1 ? "GB/s" : "GFLOP/s";
    result.value = work / fastest * 1e-9;
    result.limit = work / std::max(read_time, multiply_time) * 1e-9;
    result.limit_name = read_time > multiply_time ? "read bandwidth" : "FMA peak";
    result.ratio = result.value / result.limit;
    return result;
  }

 private:
  static constexpr int64_t kMaxScales = 1 << 16;

  static size_t memory_bytes() {
    const uint64_t available = system::available_memory();
    const uint64_t wanted = available == 0 ? kPoolBytes / 4 : std::min(kPoolBytes, available / 2);
    return std::max(wanted, 2 * kReadBytes) / kReadBytes * kReadBytes;
  }

  // The next `bytes` of the memory, from a cache line on; begins again at its end.
  const std::byte* take(uint64_t bytes) {
    if (next_ + bytes > memory_.size()) next_ = 0;
    const std::byte* from = memory_.data() + next_;
    next_ += (bytes + 63) / 64 * 64;
    return from;
  }

  const LimitKernels& limits_;
  ThreadPool pool_;
  KernelContext context_;
  Buffer memory_;
  Array<float> scales_;
  uint64_t next_ = 0;
  std::atomic<uint64_t> sink_{0};  // keeps the limit loops from being dropped
};

struct Case {
  Bench::Shape shape;
  int64_t n;
};

// The shapes of the 671B model's layers.
std::vector<Case> all_cases() {
  constexpr WeightFormat fp8 = WeightFormat::fp8_block;
  const Bench::Shape expert_up = {fp8, "fp8_block", 2048, 7168};
  const Bench::Shape expert_down = {fp8, "fp8_block", 7168, 2048};
  std::vector<Case> cases;
  for (const Bench::Shape& shape : {expert_up, expert_down}) {
    for (int64_t n = 1; n <= 512; n *= 2) cases.push_back({shape, n});
  }
  const Bench::Shape others[] = {
      {fp8, "fp8_block", 24576, 1536},          {fp8, "fp8_block", 18432, 7168},
      {fp8, "fp8_block", 7168, 16384},          {fp8, "fp8_block", 1536, 7168},
      {WeightFormat::bf16, "bf16", 2048, 7168}, {WeightFormat::f16, "f16", 2048, 7168},
      {WeightFormat::f32, "f32", 2048, 7168},
  };
  for (const Bench::Shape& shape : others) {
    for (const int64_t n : {1, 16, 64, 512}) cases.push_back({shape, n});
  }
  return cases;
}

}  // namespace

std::vector<KernelBenchResult> bench_kernels(const KernelSet& set, int threads,
                                             double seconds_budget) {
  Bench bench(set, threads);
  const std::vector<Case> cases = all_cases();
  Limits overall;
  std::vector<KernelBenchResult> results(2);
  for (const Case& c : cases) {
    const double budget = seconds_budget / static_cast<double>(cases.size());
    results.push_back(bench.time_linear(c.shape, c.n, budget, overall));
  }
  const double read = overall.bytes_per_second * 1e-9;
  const double multiply = overall.operations_per_second * 1e-9;
  results[0] = {"read bandwidth", "", 1, read, "GB/s", read, "read bandwidth", 1};
  results[1] = {"FMA peak", "", 1, multiply, "GFLOP/s", multiply, "FMA peak", 1};
  return results;
}

}  // namespace fathom
