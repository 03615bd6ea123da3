#pragma once

namespace ppsim::cli {

/// The whole program `ppsim`: reads the command line, prints, and returns the exit code. From its start on
/// signals end the process.
int run_program(int argc, char** argv);

}  // namespace ppsim::cli
