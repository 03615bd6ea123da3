#pragma once

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/workload/analytic.hpp"

namespace ppsim::planner {

/// The constants with which a workload explains the mean times of all cost classes best: the least sum of
/// |log(modelled / measured)|, each class weighted by what all its actions take. One axis after another, over
/// the whole of each, from those that the workload has; of equally good values the present one.
/// Errors: those of analytic_costs.
[[nodiscard]] Expected<FittedConstants> fitted_constants(const Workload& workload,
                                                         const AnalyzedProgram& analyzed,
                                                         const Durations& durations);

}  // namespace ppsim::planner
