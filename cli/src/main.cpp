#include "large_memory.hpp"
#include "program.hpp"

int main(int argc, char** argv) {
  ppsim::cli::prepare_for_large_memory();
  return ppsim::cli::run_program(argc, argv);
}
