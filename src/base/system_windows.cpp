#include <windows.h>
// After windows.h, which it needs.
#include <psapi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/system.h"

namespace fathom::system {

void* map_memory(size_t bytes) {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void unmap_memory(void* address, size_t) { VirtualFree(address, 0, MEM_RELEASE); }

int processor_count() {
  DWORD_PTR process = 0;
  DWORD_PTR machine = 0;
  int count = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &process, &machine)) {
    for (; process != 0; process &= process - 1) ++count;
  }
  return std::max(1, count);
}

uint64_t largest_cache() {
  DWORD bytes = 0;
  GetLogicalProcessorInformation(nullptr, &bytes);
  std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> parts(
      bytes / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
  if (parts.empty() || !GetLogicalProcessorInformation(parts.data(), &bytes)) return 0;
  uint64_t largest = 0;
  for (const auto& part : parts) {
    if (part.Relationship == RelationCache) {
      largest = std::max(largest, uint64_t{part.Cache.Size});
    }
  }
  return largest;
}

uint64_t available_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? status.ullAvailPhys : 0;
}

ProcessMemory process_memory() {
  PROCESS_MEMORY_COUNTERS counters{};
  if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters)) return {};
  return {counters.PeakWorkingSetSize, counters.WorkingSetSize, 0};
}

void keep_one_heap() {}
void trim_heap() {}

uint64_t free_disk_bytes(const std::string& folder) {
  ULARGE_INTEGER free{};
  const std::filesystem::path path = folder;
  return GetDiskFreeSpaceExW(path.c_str(), &free, nullptr, nullptr) ? free.QuadPart : UINT64_MAX;
}

namespace {

bool is_console(DWORD stream) {
  DWORD mode = 0;
  return GetConsoleMode(GetStdHandle(stream), &mode) != 0;
}

std::atomic<void (*)(int)> interrupt_handler{nullptr};

// Runs in a thread of its own.
BOOL WINAPI on_console_event(DWORD event) {
  void (*handler)(int) = interrupt_handler;
  if (handler == nullptr) return FALSE;
  handler(event == CTRL_C_EVENT ? SIGINT : SIGTERM);
  return TRUE;
}

}  // namespace

bool stdin_is_terminal() { return is_console(STD_INPUT_HANDLE); }
bool stdout_is_terminal() { return is_console(STD_OUTPUT_HANDLE); }
bool stderr_is_terminal() { return is_console(STD_ERROR_HANDLE); }

int terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO info;
  if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &info)) return 80;
  return std::max(1, info.srWindow.Right - info.srWindow.Left + 1);
}

void on_interrupt(void (*handler)(int)) {
  interrupt_handler = handler;
  SetConsoleCtrlHandler(on_console_event, handler != nullptr ? TRUE : FALSE);
}

void ignore_write_signals() {}  // there are none

std::string program_path() {
  std::wstring path(32768, L'\0');
  const DWORD length = GetModuleFileNameW(nullptr, path.data(), static_cast<DWORD>(path.size()));
  if (length == 0 || length == path.size()) return "";
  path.resize(length);
  return std::filesystem::path(path).string();
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return path + "." + std::to_string(GetCurrentProcessId()) + "-" + std::to_string(counter++) +
         ".tmp";
}

}  // namespace fathom::system
