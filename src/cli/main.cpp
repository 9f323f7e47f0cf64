#include "cli/program.h"

int main(int argc, char** argv) { return fathom::cli::run_program(argc, argv); }
