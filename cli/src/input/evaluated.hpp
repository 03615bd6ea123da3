#pragma once

#include "command.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::cli {

/// The step of an input at its costs: where the commands start that ask what would change it.
/// Errors: bad_argument without costs, which `command` needs; those of `subject`, default_program and
/// evaluate.
[[nodiscard]] Expected<SimulatedStep> evaluated(const std::string& command, Expected<Subject> subject,
                                                const TransportCapabilities& capabilities,
                                                const Output& output);

}  // namespace ppsim::cli
