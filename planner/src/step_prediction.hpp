#pragma once

#include "ppsim/planner/verified_run.hpp"

namespace ppsim::planner {

/// Simulates what ran: fills what VerifiedRun says of costs and of steps, measured and simulated. Nothing is
/// simulated where neither costs were given nor instructions timed.
/// Errors: those of bind_costs.
/// Requires: `result.run` has a trace at least, of the Program, which finished.
[[nodiscard]] Expected<void> predict_steps(const AnalyzedProgram& analyzed, const VerifiedRunOptions& options,
                                           VerifiedRun& result);

}  // namespace ppsim::planner
