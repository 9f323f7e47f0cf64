// The program from its command line to its exit code.
#pragma once

#include <functional>

#include "cli/terminal.h"

namespace fathom::cli {

// What every program does around its work: signals, colours, and errors told on stderr (with `json`
// on standard output too). Returns the exit code.
int run_main(bool json, const std::function<int(Output&)>& work);

// 0 done, 1 failed, 2 wrong use, 130 or 143 stopped by a signal.
int run_program(int argc, const char* const* argv);

}  // namespace fathom::cli
