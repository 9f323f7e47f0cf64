// Which system this is, for reports.
#pragma once

#include <string>

namespace fathom {

struct Platform {
  std::string system;   // "Linux 6.1.0", "Windows 10.0.26100"
  std::string program;  // the architecture that the program was built for: "x86_64", "aarch64"
  std::string machine;  // that of the machine, as the system tells it
  // The program's instructions are translated: slow, and libraries of the machine's own
  // architecture cannot be loaded.
  bool emulated() const { return machine != program; }
};

Platform this_platform();

}  // namespace fathom
