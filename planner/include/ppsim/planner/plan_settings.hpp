#pragma once

#include <string>

#include "ppsim/planner/export.hpp"
#include "ppsim/planner/plan.hpp"

namespace ppsim::planner {

/// A plan in the settings of a framework: flags of Megatron-LM, TOML of torchtitan, YAML of MaxText. What a
/// framework does otherwise than it was costed stands in comments.
/// Errors: refused naming what the framework does not start with.
[[nodiscard]] Expected<std::string> plan_settings(Framework framework, const PlanRequest& request,
                                                  const PlanRow& row);

}  // namespace ppsim::planner

namespace ppsim {
using planner::plan_settings;
}  // namespace ppsim
