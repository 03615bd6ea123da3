#pragma once

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/lowering/memory_saving.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// The recomputation of each stage that costs its rank the least time and with which the schedule fits into
/// the memory of the GPU.
///
/// Per rank all combinations of none, selective and full over its stages are searched (branch and bound, so
/// the choice is the best). A combination needs, at each step of the rank's row, what its live activations
/// take; everything else (parameters, buffers, messages) is what a simulated step needs beside them. The
/// choice is simulated, and a rank that exceeds its memory after all, for messages that arrive earlier, is
/// chosen for again, with what that step left it. Of choices that cost the same the one that needs less
/// memory is taken.
///
/// Errors: does_not_fit naming the rank that does not fit though it recomputes everything, with what it needs
/// and what there is; those of analytic_costs and lower.
/// Source: AdaPipe (Sun et al., ASPLOS 2024) chooses per stage and unit of a layer by a knapsack; units here
/// are those of Recompute.
[[nodiscard]] Expected<StageRecompute> adaptive_recompute(const Schedule& schedule, const Workload& workload);

}  // namespace ppsim::planner

namespace ppsim {
using planner::adaptive_recompute;
}  // namespace ppsim
