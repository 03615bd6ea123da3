#pragma once

#include "command.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::cli {

/// Everything that `simulate --json` says of one step.
[[nodiscard]] Json evaluation_json(const Evaluation& step);

}  // namespace ppsim::cli
