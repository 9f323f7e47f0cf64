#include <sys/utsname.h>

#include "base/platform.h"

namespace fathom {

Platform this_platform() {
  Platform platform;
#if defined(__x86_64__)
  platform.program = "x86_64";
#elif defined(__aarch64__)
  platform.program = "aarch64";
#else
  platform.program = "another architecture";
#endif
  utsname names;
  if (uname(&names) == 0) {
    platform.system = std::string(names.sysname) + " " + names.release;
    platform.machine = names.machine;
  } else {
    platform.machine = platform.program;
  }
  if (platform.machine == "arm64") platform.machine = "aarch64";
  return platform;
}

}  // namespace fathom
