#pragma once

#include "options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// Parses the command line and makes the checks that no command then needs to make: that an option has a
/// value, and that no output overwrites an input. Returns: the work of the command, or of printing help or
/// the version. Errors: bad_argument naming the option or the word, with the nearest name where it is not
/// known.
[[nodiscard]] Expected<CommandRun> parse_command_line(CommandLine& program, int argc, char** argv);

}  // namespace ppsim::cli
