#pragma once

#include "plan/space.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::planner {

/// The simulation of a choice.
[[nodiscard]] Workload workload_of(const PlanRequest& request, const PlanChoice& choice);
/// Everything that `ppsim simulate` says of it.
[[nodiscard]] Expected<SimulatedStep> evaluate_choice(const PlanRequest& request, const PlanChoice& choice);
[[nodiscard]] PlanRow row_of(const SimulatedStep& step, const PlanChoice& choice);

}  // namespace ppsim::planner
