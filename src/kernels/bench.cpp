#include "kernels/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
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
constexpr const char* kReadName = "read bandwidth";
constexpr const char* kMultiplyName = "FMA peak";
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

struct Timing {
  double wall = 0;
  double processor = 0;  // of all threads together; a thread on another processor lags by a tick
};

struct Round {
  double busy = 0;
  double value = 0;
  double read_limit = 0;
  double multiply_limit = 0;
  double limit() const { return std::min(read_limit, multiply_limit); }
};

// The median of `get` over rounds.
template <typename Get>
double median(const std::vector<Round>& rounds, const Get& get) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(get(round));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Work>
Timing time_of(const Work& work) {
  const auto wall = std::chrono::steady_clock::now();
  const std::clock_t processor = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count(),
          static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC};
}

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

  // Bytes per second of plain reading; lowers `busy` to that of this timing.
  double time_read(double& busy) {
    const std::byte* from = take(kReadBytes);
    const Timing timing = time_of([&] {
      pool_.parallel_for(static_cast<int64_t>(kReadBytes / kPiece), [&](int64_t i, int) {
        sink_ ^= limits_.read(from + static_cast<uint64_t>(i) * kPiece, kPiece);
      });
    });
    return rate(kReadBytes, timing, busy);
  }

  // Operations per second of multiply-adds in registers, over about `operations`.
  double time_multiply(double operations, double& busy) {
    const double round = static_cast<double>(limits_.operations_per_round * pool_.threads());
    const auto rounds = static_cast<int64_t>(operations / round) + 1;
    const Timing timing = time_of([&] {
      pool_.parallel_for(pool_.threads(), [&](int64_t, int) {
        sink_ ^= static_cast<uint64_t>(limits_.multiply_add(rounds));
      });
    });
    return rate(round * static_cast<double>(rounds), timing, busy);
  }

  struct Shape {
    WeightFormat format;
    const char* format_name;
    int64_t rows;
    int64_t cols;
  };

  KernelBenchResult time_linear(const Shape& shape, int64_t n, double budget) {
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
    const double work = n == 1 ? static_cast<double>(bytes) : operations;
    std::vector<Round> rounds;
    double spent = 0;
    while (rounds.empty() || (spent < budget && rounds.size() < 1000)) {
      Round round{.busy = 1};
      spent += time_of([&] {
                 round.read_limit = work / static_cast<double>(bytes) * time_read(round.busy);
                 round.multiply_limit = work / operations * time_multiply(operations, round.busy);
                 const Timing timing = time_of([&] {
                   for (uint64_t i = 0; i < repeats; ++i) {
                     w.data = take(bytes);
                     linear(context_, x, w, y);
                   }
                 });
                 round.value = rate(work * static_cast<double>(repeats), timing, round.busy);
               }).wall;
      rounds.push_back(round);
    }
    keep_least_disturbed(rounds);
    for (const Round& round : rounds) {
      reads_.push_back({.read_limit = round.read_limit / work * static_cast<double>(bytes)});
      multiplies_.push_back({.multiply_limit = round.multiply_limit / work * operations});
    }

    KernelBenchResult result;
    result.kernel = fmt::format("linear {}", shape.format_name);
    result.shape = fmt::format("{}x{}", shape.rows, shape.cols);
    result.n = n;
    result.unit = n == 1 ? "GB/s" : "GFLOP/s";
    result.value = median(rounds, [](const Round& r) { return r.value; }) * 1e-9;
    result.limit = median(rounds, [](const Round& r) { return r.limit(); }) * 1e-9;
    const bool reading =
        median(rounds, [](const Round& r) { return r.read_limit / r.multiply_limit; }) < 1;
    result.limit_name = reading ? kReadName : kMultiplyName;
    result.ratio = median(rounds, [](const Round& r) { return r.value / r.limit(); });
    result.busy = median(rounds, [](const Round& r) { return r.busy; });
    return result;
  }

  // The limits over all rounds so far.
  KernelBenchResult read_limit() const {
    const double value = median(reads_, [](const Round& r) { return r.read_limit; }) * 1e-9;
    return {kReadName, "", 1, value, "GB/s", value, kReadName, 1, 1};
  }
  KernelBenchResult multiply_limit() const {
    const double value =
        median(multiplies_, [](const Round& r) { return r.multiply_limit; }) * 1e-9;
    return {kMultiplyName, "", 1, value, "GFLOP/s", value, kMultiplyName, 1, 1};
  }

 private:
  static constexpr int64_t kMaxScales = 1 << 16;

  static size_t memory_bytes() {
    const uint64_t available = system::available_memory();
    const uint64_t wanted = available == 0 ? kPoolBytes / 4 : std::min(kPoolBytes, available / 2);
    return std::max(wanted, 2 * kReadBytes) / kReadBytes * kReadBytes;
  }

  // One thread's processor time is exact, and other programs do not count in it.
  double rate(double work, const Timing& timing, double& busy) const {
    busy = std::min(busy, timing.processor / (timing.wall * pool_.threads()));
    return work / std::max(pool_.threads() == 1 ? timing.processor : timing.wall, 1e-9);
  }
  // A quarter of the rounds: those in which the threads were best supplied with processors.
  static void keep_least_disturbed(std::vector<Round>& rounds) {
    std::sort(rounds.begin(), rounds.end(),
              [](const Round& a, const Round& b) { return a.busy > b.busy; });
    rounds.resize((rounds.size() + 3) / 4);
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
  std::vector<Round> reads_, multiplies_;
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
  std::vector<KernelBenchResult> results(2);
  for (const Case& c : cases) {
    results.push_back(
        bench.time_linear(c.shape, c.n, seconds_budget / static_cast<double>(cases.size())));
  }
  results[0] = bench.read_limit();
  results[1] = bench.multiply_limit();
  return results;
}

}  // namespace fathom
