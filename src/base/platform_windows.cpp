#include <windows.h>

#include "base/platform.h"

namespace fathom {
namespace {

std::string machine_name(USHORT machine) {
  if (machine == IMAGE_FILE_MACHINE_AMD64) return "x86_64";
  if (machine == IMAGE_FILE_MACHINE_ARM64) return "aarch64";
  return "another architecture";
}

}  // namespace

Platform this_platform() {
  Platform platform;
#if defined(__x86_64__) || defined(_M_X64)
  platform.program = "x86_64";
#elif defined(__aarch64__) || defined(_M_ARM64)
  platform.program = "aarch64";
#else
  platform.program = "another architecture";
#endif
  platform.machine = platform.program;
  // Tells the machine's own architecture to a program that is translated, too.
  USHORT process = 0;
  USHORT native = 0;
  if (IsWow64Process2(GetCurrentProcess(), &process, &native)) {
    platform.machine = machine_name(native);
  }
  // GetVersionEx() tells programs without a manifest of an older system.
  using RtlGetVersion = LONG(WINAPI*)(OSVERSIONINFOW*);
  const auto get_version = reinterpret_cast<RtlGetVersion>(
      reinterpret_cast<void*>(GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion")));
  OSVERSIONINFOW version{};
  version.dwOSVersionInfoSize = sizeof version;
  platform.system = "Windows";
  if (get_version != nullptr && get_version(&version) == 0) {
    platform.system += " " + std::to_string(version.dwMajorVersion) + "." +
                       std::to_string(version.dwMinorVersion) + "." +
                       std::to_string(version.dwBuildNumber);
  }
  return platform;
}

}  // namespace fathom
