#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// The effects of a cluster on a step: each adds its subcommand.
void add_sensitivity(Command& program);
void add_jitter(Command& program);
void add_contention(Command& program);
void add_checkpoint(Command& program);
/// Measurements: what a step would be with something changed, and what they say of costs.
void add_replay(Command& program);
void add_calibrate(Command& program);
void add_chakra(Command& program);

}  // namespace ppsim::cli
