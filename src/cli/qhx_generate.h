// qhx_generate: a QHexRT bundle continued greedily, by the command line that bundles' cards give.
#pragma once

namespace fathom::cli {

int run_qhx_generate(int argc, const char* const* argv);

}  // namespace fathom::cli
