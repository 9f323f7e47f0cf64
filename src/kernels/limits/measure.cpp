#include "kernels/limits/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/system.h"
#include "base/threads.h"

namespace fathom {
namespace {

constexpr size_t kLeastReadBytes = size_t{256} << 20;
constexpr size_t kPiece = size_t{1} << 20;
constexpr double kRoundSeconds = 0.01;  // of multiplying

// The median amount per second of rounds that go on for `seconds`, three at least: what is compared
// with it was not lucky in all its parts either.
template <typename Work>
double median_rate(double seconds, double amount, const Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point began) {
    return std::chrono::duration<double>(Clock::now() - began).count();
  };
  const Clock::time_point began = Clock::now();
  std::vector<double> rates;
  for (int round = 0; round < 3 || since(began) < seconds; ++round) {
    const Clock::time_point start = Clock::now();
    work();
    rates.push_back(amount / since(start));
  }
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

// Four times what caches hold, or it is those that are measured; but no more than a machine with
// little memory can spare.
size_t read_bytes() {
  size_t bytes = std::max<size_t>(kLeastReadBytes, 4 * system::largest_cache());
  const uint64_t available = system::available_memory();
  if (available > 0) bytes = std::min(bytes, std::max<size_t>(available / 4, kPiece));
  return bytes / kPiece * kPiece;
}

}  // namespace

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

double measure_read_bandwidth(const KernelSet& set, int threads, double seconds) {
  ThreadPool pool(threads);
  const Buffer memory(read_bytes());
  const LimitKernels& limits = limits_of(set);
  const auto pieces = static_cast<int64_t>(memory.size() / kPiece);
  const auto at = [&](int64_t i) { return memory.data() + static_cast<size_t>(i) * kPiece; };
  // Pages that were never written all lie in one place.
  pool.parallel_for(pieces, [&](int64_t i, int) { std::memset(at(i), 1, kPiece); });
  std::atomic<uint64_t> sink{0};
  return median_rate(seconds, static_cast<double>(memory.size()), [&] {
    pool.parallel_for(pieces, [&](int64_t i, int) { sink ^= limits.read(at(i), kPiece); });
  });
}

double measure_multiply_add_peak(const KernelSet& set, int threads, double seconds) {
  ThreadPool pool(threads);
  const LimitKernels& limits = limits_of(set);
  std::atomic<uint64_t> sink{0};
  const auto rate = [&](int64_t rounds, double time) {
    const double operations =
        static_cast<double>(limits.operations_per_round * rounds) * static_cast<double>(threads);
    return median_rate(time, operations, [&] {
      pool.parallel_for(threads, [&](int64_t, int) {
        sink ^= static_cast<uint64_t>(limits.multiply_add(rounds));
      });
    });
  };
  const double roughly = rate(100'000, 0);
  const double per_round =
      static_cast<double>(limits.operations_per_round) * static_cast<double>(threads);
  return rate(std::max<int64_t>(1000, static_cast<int64_t>(roughly * kRoundSeconds / per_round)),
              seconds);
}

}  // namespace fathom
