#pragma once

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::planner {

/// Requires: `graph` is of the Program, under whatever transport. Errors: ill_formed with the broken rules.
[[nodiscard]] Expected<void> require_well_formed(const Program& program, const ExecutionGraph& graph);

}  // namespace ppsim::planner
