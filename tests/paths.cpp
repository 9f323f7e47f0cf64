#include "tests/paths.h"

namespace fathom::test_paths {

std::string golden() { return FATHOM_SOURCES "/tests/golden"; }
std::string models() { return FATHOM_SOURCES "/models"; }
std::string program() { return FATHOM_PROGRAM; }
std::string qhx_generate() { return FATHOM_QHX_GENERATE; }
std::string emulator() { return FATHOM_EMULATOR; }

}  // namespace fathom::test_paths
