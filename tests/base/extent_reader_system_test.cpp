// What the system may refuse a reader: its queue, the way past the page cache, locked memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/buffer.h"
#include "base/error.h"
#include "base/extent_reader_raw.h"
#include "base/file.h"
#include "tests/temporary_folder.h"

namespace fathom {
namespace {

using Paths = std::vector<std::vector<std::string>>;
using Names = std::vector<std::string>;

// From here on the calling thread's system call `number` fails with `problem`. False where this
// system has no such filters.
bool forbid(unsigned number, unsigned problem) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | problem),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Capabilities belong to a thread: this one may not lock more memory than the limit says.
bool give_up_locking() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return false;
  sets[0].effective &= ~(1u << CAP_IPC_LOCK);
  return syscall(SYS_capset, &header, sets.data()) == 0;
}

class ExtentReaderSystem : public testing::Test {
 protected:
  ExtentReaderSystem() : memory_(size_t{16} << 20), text_(5000000, '\0') {
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<char>(i * 40503 >> 7);
    std::ofstream(folder_ / "file", std::ios::binary) << text_;
    options_.paths = Paths{Names{folder_ / "file"}};
  }
  void read_and_compare(ExtentReader& reader) {
    const Extent extent{0, 4097, text_.size() - 4097};
    reader.start(1, extent, memory_.data(), ReadPriority::demand);
    const auto over = reader.next(true);
    ASSERT_TRUE(over && !over->failure);
    EXPECT_EQ(std::memcmp(memory_.data() + ExtentReader::landing_offset(extent),
                          text_.data() + extent.offset, extent.bytes),
              0);
  }
  std::string refusal() {
    try {
      open_extent_reader(options_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  Buffer memory_;
  std::string text_;
  ExtentReaderOptions options_;
};

TEST_F(ExtentReaderSystem, ReadsWithThreadsWhereTheQueueIsForbidden) {
  for (const int problem : {EPERM, ENOSYS}) {
    bool forbidden = false;
    std::thread([&] {  // the filter ends with its thread
      forbidden = forbid(SYS_io_uring_setup, static_cast<unsigned>(problem));
      if (!forbidden) return;
      const auto reader = open_extent_reader(options_);
      EXPECT_NE(reader->mode(), IoMode::uring_direct);
      const std::string text = reader->description();
      EXPECT_NE(text.find("io_uring"), std::string::npos) << text;
      EXPECT_NE(text.find(std::strerror(problem)), std::string::npos) << text;
      read_and_compare(*reader);
      options_.mode = IoMode::uring_direct;
      EXPECT_NE(refusal().find(std::strerror(problem)), std::string::npos);
      options_.mode = IoMode::automatic;
    })
        .join();
    if (!forbidden) GTEST_SKIP() << "no system call filters here";
  }
}

// Files of this kind exist on every Linux and cannot be read past the page cache.
TEST_F(ExtentReaderSystem, ReadsThroughThePageCacheWhereTheWayPastItIsRefused) {
  const std::string file = "/proc/version";
  options_.paths = Paths{Names{file}};
  for (const IoMode mode : {IoMode::uring_direct, IoMode::threads_direct}) {
    options_.mode = mode;
    EXPECT_NE(refusal().find("O_DIRECT is refused for " + file), std::string::npos);
  }
  options_.mode = IoMode::automatic;
  const auto reader = open_extent_reader(options_);
  EXPECT_EQ(reader->mode(), IoMode::threads_buffered);
  EXPECT_NE(reader->description().find("O_DIRECT is refused for " + file), std::string::npos);
  reader->start(1, {0, 0, 5}, memory_.data(), ReadPriority::demand);
  const auto over = reader->next(true);
  ASSERT_TRUE(over && !over->failure);
  EXPECT_EQ(std::memcmp(memory_.data(), "Linux", 5), 0);
}

TEST_F(ExtentReaderSystem, ReadsFromAFileSystemInMemory) {
  const std::string file = "/dev/shm/fathom." + std::to_string(getpid()) + ".extents";
  {
    std::ofstream out(file, std::ios::binary);
    if (!(out << text_).flush()) GTEST_SKIP() << "no file system in memory here";
  }
  options_.paths = Paths{Names{file}};
  for (const IoMode mode : {IoMode::automatic, IoMode::threads_buffered}) {
    options_.mode = mode;
    read_and_compare(*open_extent_reader(options_));
  }
  std::filesystem::remove(file);
}

TEST_F(ExtentReaderSystem, ReadsWithoutRegisteredMemoryWhereLittleMayBeLocked) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit little{rlim_t{64} << 10, before.rlim_max};
  if (before.rlim_max < little.rlim_cur) GTEST_SKIP() << "the limit is lower than the test's";
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &little), 0);
  std::thread([&] {
    if (!give_up_locking()) return;
    const auto reader = open_extent_reader(options_);
    EXPECT_FALSE(reader->register_memory(memory_.bytes()));
    EXPECT_EQ(reader->description().find("registered buffers"), std::string::npos);
    read_and_compare(*reader);
    // What fits into the limit is taken, and stays when more is refused.
    if (reader->mode() == IoMode::uring_direct &&
        reader->register_memory(memory_.bytes().first(16384))) {
      EXPECT_FALSE(reader->register_memory(memory_.bytes()));
      EXPECT_NE(reader->description().find("registered buffers"), std::string::npos);
      read_and_compare(*reader);
    }
  }).join();
  EXPECT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

// Blocks of the file that the page cache holds.
size_t cached_blocks(const std::string& path, size_t bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (mapped == MAP_FAILED) return 0;
  std::vector<unsigned char> there((bytes + ExtentReader::kBlock - 1) / ExtentReader::kBlock);
  const bool known = mincore(mapped, bytes, there.data()) == 0;
  munmap(mapped, bytes);
  if (!known) return 0;
  return static_cast<size_t>(
      std::count_if(there.begin(), there.end(), [](unsigned char c) { return (c & 1) != 0; }));
}

TEST_F(ExtentReaderSystem, LeavesNothingInThePageCache) {
  const std::string path = folder_ / "file";
  const int descriptor = open(path.c_str(), O_RDONLY);
  fsync(descriptor);  // what is not on the disk yet cannot be forgotten
  close(descriptor);
  forget_cached(path, 0, text_.size());
  forget_cached(folder_ / "missing", 0, 1);
  if (cached_blocks(path, text_.size()) > 0) GTEST_SKIP() << "this file system forgets nothing";
  for (const IoMode mode : {IoMode::automatic, IoMode::threads_buffered}) {
    options_.mode = mode;
    read_and_compare(*open_extent_reader(options_));
    EXPECT_LE(cached_blocks(path, text_.size()), 16u) << io_mode_name(mode);
  }
  File(path).read_at(0, memory_.bytes().first(text_.size()));
  EXPECT_GT(cached_blocks(path, text_.size()), 1000u);
}

}  // namespace
}  // namespace fathom
