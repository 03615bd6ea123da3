#pragma once

#include "plan/space.hpp"
#include "ppsim/planner/evaluate.hpp"

namespace ppsim::planner {

/// The simulation of a choice.
[[nodiscard]] Workload workload_of(const PlanRequest& request, const PlanChoice& choice);
/// Everything that `ppsim simulate` says of it, or of it in a layout that is given.
[[nodiscard]] Expected<SimulatedStep> evaluate_choice(const PlanRequest& request, const PlanChoice& choice,
                                                      const PipelineLayout* layout = nullptr);
[[nodiscard]] PlanRow row_of(const SimulatedStep& step, const PlanChoice& choice);

}  // namespace ppsim::planner
