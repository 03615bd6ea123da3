#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/bounds.hpp"
#include "plan/placement.hpp"
#include "plan/space.hpp"

namespace ppsim::planner {

/// A plan that was not simulated yet, and what it is not below.
struct BoundedPlan {
  PlanChoice choice;
  LowerBound bound;
  RowForm form;
  std::shared_ptr<const PlacedCosts> costs;
};

/// The plans of one parallelism.
struct ParallelismPlans {
  const PlanRequest& request;
  const Space& space;
  const PlanChoice& choice;                ///< its parallelism and recompute
  std::span<const PlacedSchedule> placed;  ///< those of the same placement next to each other
  std::optional<bool> overlaps;            ///< only schedules that do, or do not, overlap F and B
};

/// Every schedule in every layout, with its bounds; of layouts that come to the same the first counts.
/// All processors take part. Order: that of `placed`, by placement, then layouts, whatever their number.
[[nodiscard]] std::vector<BoundedPlan> bounded_plans(const ParallelismPlans& plans);

}  // namespace ppsim::planner
