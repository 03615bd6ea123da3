#pragma once

#include <string>

#include "ppsim/planner/plan.hpp"

namespace ppsim::cli {

struct PlanOptions;

/// A plan that was asked for, beside the best.
struct PlanRival {
  std::string asked;
  PlanRow row;
};

/// The plans as a page: steps over memory, where a point leads to its row, and the rows with their commands.
/// Requires: a plan that fits.
[[nodiscard]] std::string plan_page(const PlanOptions& options, const Plan& plan,
                                    const std::vector<PlanRival>& rivals, const std::string& command);

}  // namespace ppsim::cli
