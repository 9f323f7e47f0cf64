#include "cli/qhx_generate.h"

int main(int argc, char** argv) { return fathom::cli::run_qhx_generate(argc, argv); }
