#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/system.h"

namespace fathom::system {

void* map_memory(size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  madvise(address, bytes, MADV_HUGEPAGE);  // a hint; refusal changes nothing but speed
  return address;
}

void unmap_memory(void* address, size_t bytes) { munmap(address, bytes); }

int processor_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

uint64_t largest_cache() {
  uint64_t bytes = 0;
#ifdef _SC_LEVEL4_CACHE_SIZE  // glibc's
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    const long size = sysconf(name);
    if (size > 0) bytes = std::max(bytes, static_cast<uint64_t>(size));
  }
#endif
  return bytes;
}

namespace {

// "Name: 123 kB" lines, in KiB.
std::map<std::string, uint64_t> read_kib(const char* path) {
  std::ifstream file(path);
  std::map<std::string, uint64_t> kib;
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    uint64_t value = 0;
    if (colon == std::string::npos) continue;
    if (std::sscanf(line.c_str() + colon + 1, "%" SCNu64, &value) == 1) {
      kib[line.substr(0, colon)] = value;
    }
  }
  return kib;
}

std::optional<uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

// What the page cache of a control group takes, which is given back when memory is short.
uint64_t group_file_cache(const std::string& folder, const std::string& prefix) {
  std::ifstream file(folder + "/memory.stat");
  std::string name;
  uint64_t value = 0;
  uint64_t sum = 0;
  while (file >> name >> value) {
    if (name == prefix + "active_file" || name == prefix + "inactive_file") sum += value;
  }
  return sum;
}

// Names of the same things in both versions of control groups.
struct GroupFiles {
  std::string root;
  std::string most;
  std::string taken;
  std::string stat_prefix;
};

// What the control groups above this process still grant.
uint64_t group_memory_left() {
  const GroupFiles version_2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current", ""};
  const GroupFiles version_1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                                "/memory.usage_in_bytes", "total_"};
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  uint64_t left = UINT64_MAX;
  while (std::getline(file, line)) {
    const size_t v1 = line.find(":memory:");
    if (v1 == std::string::npos && !line.starts_with("0::")) continue;
    const GroupFiles& files = v1 == std::string::npos ? version_2 : version_1;
    std::string group = line.substr(v1 == std::string::npos ? 3 : v1 + 8);
    while (true) {
      const std::string folder = files.root + (group == "/" ? "" : group);
      const auto most = read_number(folder + files.most);
      const auto taken = read_number(folder + files.taken);
      if (most && taken) {
        const uint64_t cache = group_file_cache(folder, files.stat_prefix);
        const uint64_t kept = *taken > cache ? *taken - cache : 0;
        left = std::min(left, *most > kept ? *most - kept : 0);
      }
      if (group.empty() || group == "/") break;
      group.erase(group.rfind('/'));
    }
  }
  return left;
}

}  // namespace

uint64_t available_memory() {
  auto kib = read_kib("/proc/meminfo");
  uint64_t available = 0;
  if (kib.count("MemAvailable")) {
    available = kib["MemAvailable"] * 1024;
  } else {
    // Old kernels: free and buffers and what of the page cache is not shared memory.
    const uint64_t cached = kib["Cached"] + kib["SReclaimable"];
    const uint64_t shared = kib["Shmem"];
    const uint64_t sum = kib["MemFree"] + kib["Buffers"] + (cached > shared ? cached - shared : 0);
    available = std::min(sum, kib["MemTotal"]) * 1024;
  }
  return std::min(available, group_memory_left());
}

ProcessMemory process_memory() {
  auto kib = read_kib("/proc/self/status");
  return {kib["VmHWM"] * 1024, kib["VmRSS"] * 1024, kib["VmSwap"] * 1024};
}

void keep_one_heap() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
#endif
}

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

uint64_t free_disk_bytes(const std::string& folder) {
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return UINT64_MAX;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void on_interrupt(void (*handler)(int)) {
  struct sigaction action {};
  if (handler == nullptr) {
    action.sa_handler = SIG_DFL;
  } else {
    action.sa_handler = handler;
  }
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read that waits for the keyboard must come back.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void ignore_write_signals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

std::string program_path() {
  std::string path(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size()) return "";
  path.resize(static_cast<size_t>(length));
  return path;
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + "." + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".tmp";
}

}  // namespace fathom::system
