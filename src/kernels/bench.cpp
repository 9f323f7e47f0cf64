#include "kernels/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <random>

#include "base/buffer.h"
#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/combine/combine.h"
#include "kernels/context.h"
#include "kernels/limits/measure.h"
#include "kernels/linear/linear.h"
#include "kernels/norm/norm.h"

namespace fathom {
namespace {

constexpr uint64_t kPoolBytes = uint64_t{3} << 29;  // several times the largest caches
constexpr uint64_t kPiece = uint64_t{1} << 20;      // read at a time by one thread
// A timing takes some milliseconds: short enough that some are not disturbed on a busy machine,
// long enough that what a product does once (waking threads, filling caches) counts as little as in
// use.
constexpr uint64_t kReadBytes = uint64_t{1} << 25;
constexpr const char* kReadName = "read bandwidth";
constexpr const char* kMultiplyName = "FMA peak";
constexpr double kBurstOperations = 4e9;  // of one timing, where shapes allow

struct Timing {
  double wall = 0;
  double processor = 0;  // of all threads together; a thread on another processor lags by a tick
};

struct Round {
  double busy = 0;
  double value = 0;
  double read = 0;        // bytes per second
  double multiply = 0;    // operations per second
  double read_limit = 0;  // the same in the unit of `value`
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
  Bench(const KernelSet& set, int threads, double seconds)
      : limits_(limits_of(set)),
        pool_(threads),
        context_(set, pool_),
        memory_(memory_bytes(seconds)) {
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
    scales_ = filled(kMaxScales, 0x1p-9f);
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

  // What one timing runs, and what it takes at least.
  struct Work {
    double bytes = 0;       // that come from memory, or go there
    double operations = 0;  // multiplications and additions
    bool in_bytes = false;  // the unit of the result: GB/s, else GFLOP/s
  };

  // Rounds of the limits and `run`, for about `budget` seconds; fills in the numbers of `result`.
  template <typename Run>
  void time_rounds(const Work& work, double budget, KernelBenchResult& result, const Run& run) {
    const double amount = work.in_bytes ? work.bytes : work.operations;
    const double burst = std::max(work.operations, kLeastOperations);
    std::vector<Round> rounds;
    double spent = 0;
    while (rounds.empty() || (spent < budget && rounds.size() < 1000)) {
      Round round{.busy = 1};
      spent += time_of([&] {
                 round.read = time_read(round.busy);
                 round.multiply = time_multiply(burst, round.busy);
                 round.value = rate(amount, time_of(run), round.busy);
                 round.read_limit = amount / work.bytes * round.read;
                 round.multiply_limit = amount / work.operations * round.multiply;
               }).wall;
      rounds.push_back(round);
    }
    keep_least_disturbed(rounds);
    all_rounds_.insert(all_rounds_.end(), rounds.begin(), rounds.end());
    result.unit = work.in_bytes ? "GB/s" : "GFLOP/s";
    result.value = median(rounds, [](const Round& r) { return r.value; }) * 1e-9;
    result.limit = median(rounds, [](const Round& r) { return r.limit(); }) * 1e-9;
    const bool reading =
        median(rounds, [](const Round& r) { return r.read_limit / r.multiply_limit; }) < 1;
    result.limit_name = reading ? kReadName : kMultiplyName;
    result.ratio = median(rounds, [](const Round& r) { return r.value / r.limit(); });
    result.busy = median(rounds, [](const Round& r) { return r.busy; });
  }

  struct Shape {
    WeightFormat format;
    int64_t rows;
    int64_t cols;
  };

  void time_linear(const Shape& shape, double budget, KernelBenchResult& result) {
    WeightView w = weights(shape);
    const int64_t n = result.n;
    const bool levels = level_bits(shape.format) > 0;
    Matrix x(n, w.cols);
    Matrix all_y(n, w.rows);
    for (int64_t i = 0; i < n * w.cols; ++i) x.data()[i] = static_cast<float>(i % 17) - 8.0f;
    // A timing covers several matrices where one is quick, and some rows of one where it is slow:
    // rows do not depend on each other, and are as many as keep every thread at whole blocks.
    const double row_operations = 2.0 * static_cast<double>(n * w.cols);
    const int64_t least_rows = 128 * pool_.threads();
    const auto wanted_rows = static_cast<int64_t>(kBurstOperations / row_operations);
    if (n > 1) w.rows = std::min(w.rows, std::max(least_rows, wanted_rows / 128 * 128));
    const auto bytes = static_cast<uint64_t>(w.rows * w.row_bytes());
    const auto scale_bytes = levels ? static_cast<uint64_t>(w.rows * w.row_scale_bytes()) : 0;
    const uint64_t repeats = n > 1 ? 1 : std::max<uint64_t>(1, kReadBytes / bytes);
    const auto all = static_cast<double>(repeats);
    const Work work = {static_cast<double>(bytes + scale_bytes) * all,
                       row_operations * static_cast<double>(w.rows) * all, n == 1};
    Span2d<float> y = {all_y.data(), n, w.rows};
    time_rounds(work, budget, result, [&] {
      for (uint64_t i = 0; i < repeats; ++i) {
        w.data = take(bytes);
        if (levels) w.scale = take(scale_bytes);
        linear(context_, x, w, y);
      }
    });
  }

  // The products of 128 heads, as they fold W_UK into queries.
  void time_combine(const Shape& shape, double budget, KernelBenchResult& result) {
    const int64_t n = result.n;
    Matrix p(kHeads * n, shape.rows);
    Matrix y(kHeads * n, shape.cols);
    std::fill_n(p.data(), p.rows() * p.cols(), 0.5f);
    const WeightView w = weights(shape);
    const auto bytes = static_cast<uint64_t>(w.rows * w.row_bytes());
    std::vector<HeadProduct> heads;
    for (int64_t h = 0; h < kHeads; ++h) {
      heads.push_back({Span2d<const float>(p).middle_rows(h * n, n), w,
                       Span2d<float>(y).middle_rows(h * n, n)});
    }
    const auto products = static_cast<double>(kHeads * shape.rows * shape.cols);
    const Work work = {static_cast<double>(bytes) * kHeads, 2.0 * static_cast<double>(n) * products,
                       n == 1};
    time_rounds(work, budget, result, [&] {
      for (HeadProduct& head : heads) head.w.data = take(bytes);
      combine_heads(context_, heads);
    });
  }

  // Tokens that see kPositions cached positions each.
  void time_attention(double budget, KernelBenchResult& result) {
    LatentAttention a;
    a.layout = {KvFormat::bf16, 512, 64};
    a.softmax_scale = 0.125f;
    a.heads = kHeads;
    Matrix q(result.n * kHeads, a.layout.width());
    Matrix out(result.n * kHeads, a.layout.latent);
    std::fill_n(q.data(), q.rows() * q.cols(), 0.5f);
    const std::vector<int64_t> positions(static_cast<size_t>(result.n), kPositions - 1);
    std::vector<const std::byte*> blocks(static_cast<size_t>(kPositions / kAttentionBlock));
    a.q = q;
    a.positions = positions;
    a.out = out;
    const auto bytes = static_cast<double>(kPositions * a.layout.bytes());
    const auto scores = static_cast<double>(result.n * kHeads * kPositions);
    const Work work = {
        bytes, 2.0 * scores * static_cast<double>(a.layout.width() + a.layout.latent), false};
    time_rounds(work, budget, result, [&] {
      for (const std::byte*& block : blocks) {
        block = take(static_cast<uint64_t>(kAttentionBlock * a.layout.bytes()));
      }
      a.blocks = blocks;
      latent_attention(context_, a);
    });
  }

  // x is read and y written.
  void time_norm(int64_t cols, double budget, KernelBenchResult& result) {
    Matrix y(result.n, cols);
    const Array<float> ones = filled(static_cast<size_t>(cols), 1.0f);
    const auto values = static_cast<double>(result.n * cols);
    time_rounds({8 * values, 4 * values, true}, budget, result, [&] {
      const std::byte* x = take(static_cast<uint64_t>(result.n * cols * 4));
      rms_norm(context_, {reinterpret_cast<const float*>(x), result.n, cols}, ones.data(), 1e-6f,
               y);
    });
  }

  // gate is read and written, up is read.
  void time_activation(int64_t cols, double budget, KernelBenchResult& result) {
    // sigmoid(20) is 1 in float32, so that gate stays what it is.
    Matrix gate(result.n, cols);
    Matrix up(result.n, cols);
    std::fill_n(gate.data(), result.n * cols, 20.0f);
    std::fill_n(up.data(), result.n * cols, 1.0f);
    const auto values = static_cast<double>(result.n * cols);
    time_rounds({12 * values, 4 * values, true}, budget, result,
                [&] { silu_multiply(context_, gate, up); });
  }

  // The limits over all rounds so far.
  KernelBenchResult read_limit() const {
    return limit_of(kReadName, "GB/s", [](const Round& r) { return r.read; });
  }
  KernelBenchResult multiply_limit() const {
    return limit_of(kMultiplyName, "GFLOP/s", [](const Round& r) { return r.multiply; });
  }

 private:
  static constexpr int64_t kMaxScales = 1 << 16;
  static constexpr double kLeastOperations = 2e8;  // of a timing of the multiply-adds
  static constexpr int64_t kHeads = 128;
  static constexpr int64_t kPositions = 4096;

  template <typename Get>
  KernelBenchResult limit_of(const char* name, const char* unit, const Get& get) const {
    const double value = median(all_rounds_, get) * 1e-9;
    const double busy = median(all_rounds_, [](const Round& r) { return r.busy; });
    return {name, "", 1, value, unit, value, name, 1, busy};
  }

  WeightView weights(const Shape& shape) const {
    if (level_bits(shape.format) > 0) {
      return WeightView::levels(shape.format, shape.rows, shape.cols, nullptr, nullptr);
    }
    WeightView w;
    w.format = shape.format;
    w.rows = shape.rows;
    w.cols = shape.cols;
    w.scale = reinterpret_cast<const std::byte*>(scales_.data());
    w.scale_cols = (shape.cols + w.block_cols - 1) / w.block_cols;
    return w;
  }

  static Array<float> filled(size_t count, float value) {
    Array<float> values(count);
    std::fill_n(values.data(), count, value);
    return values;
  }

  // A measurement of less than a second is not worth filling much.
  static size_t memory_bytes(double seconds) {
    const uint64_t available = system::available_memory();
    const uint64_t most = seconds < 1 ? kPoolBytes / 12 : kPoolBytes;
    const uint64_t wanted = available == 0 ? most / 4 : std::min(most, available / 2);
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
  std::vector<Round> all_rounds_;
  std::atomic<uint64_t> sink_{0};  // keeps the limit loops from being dropped
};

struct Case {
  const char* kernel;
  std::string shape;
  int64_t n;
  std::function<void(Bench&, double budget, KernelBenchResult&)> time;
};

Case linear_case(const char* name, const Bench::Shape& shape, int64_t n) {
  return {name, fmt::format("{}x{}", shape.rows, shape.cols), n,
          [shape](Bench& bench, double budget, KernelBenchResult& result) {
            bench.time_linear(shape, budget, result);
          }};
}

// The shapes of the 671B model's layers, and of a small dense one's.
std::vector<Case> all_cases() {
  constexpr WeightFormat fp8 = WeightFormat::fp8_block;
  std::vector<Case> cases;
  for (const Bench::Shape& shape : {Bench::Shape{fp8, 2048, 7168}, Bench::Shape{fp8, 7168, 2048}}) {
    for (int64_t n = 1; n <= 512; n *= 2) {
      cases.push_back(linear_case("linear fp8_block", shape, n));
    }
  }
  const std::pair<const char*, Bench::Shape> others[] = {
      {"linear fp8_block", {fp8, 24576, 1536}},
      {"linear fp8_block", {fp8, 18432, 7168}},
      {"linear fp8_block", {fp8, 7168, 16384}},
      {"linear fp8_block", {fp8, 1536, 7168}},
      {"linear bf16", {WeightFormat::bf16, 2048, 7168}},
      {"linear f16", {WeightFormat::f16, 2048, 7168}},
      {"linear f32", {WeightFormat::f32, 2048, 7168}},
      {"linear int8_row", {WeightFormat::int8_row, 2048, 7168}},
      {"linear int4", {WeightFormat::int4, 2048, 7168}},
      {"linear int3", {WeightFormat::int3, 2048, 7168}},
      {"linear int2", {WeightFormat::int2, 2048, 7168}},
      // A layer of Distill-Qwen-1.5B.
      {"linear bf16", {WeightFormat::bf16, 8960, 1536}},
      {"linear bf16", {WeightFormat::bf16, 1536, 8960}},
      {"linear int8_row", {WeightFormat::int8_row, 8960, 1536}},
      {"linear int8_row", {WeightFormat::int8_row, 1536, 8960}},
      {"linear int4", {WeightFormat::int4, 8960, 1536}},
      {"linear int4", {WeightFormat::int4, 1536, 8960}},
  };
  for (const auto& [name, shape] : others) {
    for (const int64_t n : {1, 16, 64, 512}) cases.push_back(linear_case(name, shape, n));
  }
  for (const int64_t n : {1, 16}) {
    cases.push_back({"combine fp8_block", "128x512", n,
                     [](Bench& bench, double budget, KernelBenchResult& result) {
                       bench.time_combine({fp8, 128, 512}, budget, result);
                     }});
  }
  for (const int64_t n : {1, 4}) {
    cases.push_back({"attention bf16", "4096x576", n,
                     [](Bench& bench, double budget, KernelBenchResult& result) {
                       bench.time_attention(budget, result);
                     }});
  }
  cases.push_back({"rms_norm", "7168", 512, [](Bench& bench, double budget, KernelBenchResult& r) {
                     bench.time_norm(7168, budget, r);
                   }});
  cases.push_back(
      {"silu_multiply", "18432", 512, [](Bench& bench, double budget, KernelBenchResult& result) {
         bench.time_activation(18432, budget, result);
       }});
  return cases;
}

}  // namespace

std::vector<KernelBenchResult> bench_kernels(const KernelSet& set, int threads,
                                             double seconds_budget, std::string_view only) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& c) {
    const std::string name = fmt::format("{} {} {}", c.kernel, c.shape, c.n);
    return name.find(only) == std::string::npos;
  });
  if (cases.empty()) {
    throw Error(ErrorKind::usage, fmt::format("no kernel and shape is named like '{}'", only));
  }
  Bench bench(set, threads, seconds_budget);
  std::vector<KernelBenchResult> results(2);
  for (const Case& c : cases) {
    KernelBenchResult result;
    result.kernel = c.kernel;
    result.shape = c.shape;
    result.n = c.n;
    c.time(bench, seconds_budget / static_cast<double>(cases.size()), result);
    results.push_back(result);
  }
  results[0] = bench.read_limit();
  results[1] = bench.multiply_limit();
  return results;
}

}  // namespace fathom
