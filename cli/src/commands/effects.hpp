#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// What a cluster does to a step: adds the subcommand.
void add_sensitivity(Command& program);

}  // namespace ppsim::cli
