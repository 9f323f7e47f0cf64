// The program from its command line to its exit code.
#pragma once

namespace fathom::cli {

// 0 done, 1 failed, 2 wrong use, 130 or 143 stopped by a signal.
int run_program(int argc, const char* const* argv);

}  // namespace fathom::cli
