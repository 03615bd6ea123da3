#pragma once

#include <CLI/CLI.hpp>

#include "ppsim/core/error.hpp"

namespace ppsim::cli {

/// Parses the command line and checks what no command needs to: that an option has a value, and that no
/// output takes the place of an input. Returns: false where help or the version was asked for, which is
/// printed.
/// Errors: bad_argument naming the option or the word, with the nearest name where it is not known.
[[nodiscard]] Expected<bool> parse_command_line(CLI::App& app, int argc, char** argv);

}  // namespace ppsim::cli
