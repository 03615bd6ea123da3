#pragma once

#include "options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// Parses the command line and checks what no command needs to: that an option has a value, and that no
/// output takes the place of an input. Returns: what is to be done; nothing is left to do where help or the
/// version was asked for, which is printed.
/// Errors: bad_argument naming the option or the word, with the nearest name where it is not known.
[[nodiscard]] Expected<CommandRun> parse_command_line(CommandLine& program, int argc, char** argv);

}  // namespace ppsim::cli
