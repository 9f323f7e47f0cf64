#include "base/system.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"

namespace fathom {
namespace {

TEST(System, MemoryComesZeroedAndCanBeGivenBack) {
  constexpr size_t kBytes = size_t{8} << 20;
  auto* memory = static_cast<std::byte*>(system::map_memory(kBytes));
  ASSERT_NE(memory, nullptr);
  for (size_t i = 0; i < kBytes; i += 4096) ASSERT_EQ(memory[i], std::byte{0});
  memory[kBytes - 1] = std::byte{1};
  system::unmap_memory(memory, kBytes);
  EXPECT_EQ(system::map_memory(std::numeric_limits<size_t>::max() / 2), nullptr);
}

TEST(System, CountsOnlyProcessorsThatMayBeUsed) {
  const int all = system::processor_count();
  EXPECT_GE(all, 1);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(system::processor_count(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(system::processor_count(), all);
}

TEST(System, AvailableMemoryIsPlausible) {
  const uint64_t bytes = system::available_memory();
  EXPECT_GT(bytes, uint64_t{1} << 20);
  EXPECT_LE(bytes, static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

TEST(System, ATerminalHasColumns) { EXPECT_GT(system::terminal_columns(), 0); }

TEST(System, TemporaryNamesAreUnique) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(system::temporary_name("folder/out.npy"));
  EXPECT_EQ(names.size(), 100u);
  for (const std::string& name : names) EXPECT_EQ(name.rfind("folder/out.npy.", 0), 0u) << name;
}

std::atomic<int> last_signal{0};

TEST(System, InterruptsReachTheHandlerAndTheDefaultsComeBack) {
  system::on_interrupt([](int signal) { last_signal = signal; });
  raise(SIGINT);
  EXPECT_EQ(last_signal, SIGINT);
  raise(SIGTERM);
  EXPECT_EQ(last_signal, SIGTERM);
  system::on_interrupt(nullptr);
  struct sigaction now {};
  ASSERT_EQ(sigaction(SIGINT, nullptr, &now), 0);
  EXPECT_EQ(now.sa_handler, SIG_DFL);
}

TEST(Cancel, ThrowsOnceAskedAndNotAfterReset) {
  CancelToken token;
  EXPECT_FALSE(token.cancelled());
  EXPECT_NO_THROW(token.throw_if_cancelled());
  token.cancel();
  EXPECT_TRUE(token.cancelled());
  try {
    token.throw_if_cancelled();
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
  token.reset();
  EXPECT_NO_THROW(token.throw_if_cancelled());
}

TEST(CancelThreads, StopsWorkOnAnotherThread) {
  CancelToken token;
  std::atomic<bool> running{false};
  std::atomic<bool> stopped{false};
  std::thread worker([&] {
    try {
      while (true) {
        running = true;
        token.throw_if_cancelled();
        std::this_thread::yield();
      }
    } catch (const Error&) {
      stopped = true;
    }
  });
  while (!running) std::this_thread::yield();
  token.cancel();
  worker.join();
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace fathom
