#pragma once

#include <optional>
#include <string>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/planner/costs/costs.hpp"

namespace ppsim::planner {

/// The Program of a schedule, and the costs that its order follows.
struct CostedProgram {
  Program program;
  CostBinding costs;
};

/// A schedule of the registry as a Workload runs it, on its ranks and with its microbatches and recompute.
/// Errors: those of ir_from_name, bind_cost_source and to_program.
[[nodiscard]] Expected<CostedProgram> costed_program(const Workload& work, const std::string& schedule,
                                                     std::optional<int> chunks);

}  // namespace ppsim::planner
