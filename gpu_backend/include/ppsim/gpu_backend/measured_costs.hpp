#pragma once

#include <span>

#include "ppsim/core/program.hpp"
#include "ppsim/core/tables.hpp"
#include "ppsim/core/timed_trace.hpp"

namespace ppsim {

/// Median duration of every cost class over all its occurrences in runs of one Program. A transfer and a
/// collective count from the moment when all ends have started, so that waiting for each other is no cost.
/// Members of a group count from the start to the end of the group.
[[nodiscard]] CostTable measured_costs(const Program& program, std::span<const TimedTrace> traces);

}  // namespace ppsim
