#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// The effects of a cluster on a step: each adds its subcommand.
void add_sensitivity(Command& program);
void add_jitter(Command& program);
void add_contention(Command& program);

}  // namespace ppsim::cli
