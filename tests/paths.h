// Where tests find their data and the program. A clone's own paths are in paths.cpp alone.
#pragma once

#include <string>

namespace fathom::test_paths {

std::string golden();   // tests/golden
std::string models();   // models
std::string program();  // the built fathom
std::string qhx_generate();
std::string emulator();  // what runs it where it is built for another machine, else ""

}  // namespace fathom::test_paths
