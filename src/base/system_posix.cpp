#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

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

uint64_t available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::map<std::string, uint64_t> kib;
  std::string name, rest;
  uint64_t value = 0;
  while (meminfo >> name >> value) {
    std::getline(meminfo, rest);
    kib[name] = value;
  }
  if (kib.count("MemAvailable:")) return kib["MemAvailable:"] * 1024;
  // Kernels without MemAvailable: free and buffers and what of the page cache is not shared memory.
  const uint64_t cached = kib["Cached:"] + kib["SReclaimable:"];
  const uint64_t shared = kib["Shmem:"];
  const uint64_t sum = kib["MemFree:"] + kib["Buffers:"] + (cached > shared ? cached - shared : 0);
  return std::min(sum, kib["MemTotal:"]) * 1024;
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
