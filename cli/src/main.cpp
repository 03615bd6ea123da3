#include "program.hpp"

int main(int argc, char** argv) { return ppsim::cli::run_program(argc, argv); }
