#pragma once

#include <span>

#include "ppsim/core/io/json.hpp"
#include "ppsim/planner/calibration/slowdown_fit.hpp"
#include "ppsim/planner/verified_run.hpp"

namespace ppsim::planner {

/// Costs and sizes measured by running Programs of one pipeline: of each cost class the mean and the
/// quartiles over all steps but the first, which finds cold caches. A class that several Programs have comes
/// from the first of them.
/// Requires: at least one Program; at least 2 steps.
/// Errors: those of verify_then_run; deadlock for a Program that hangs.
[[nodiscard]] Expected<Tables> profile(std::span<const Program> programs, const StageModel& model,
                                       const RunOptions& run);

/// The same costs, and how much the ranks that share a device slow each other down in those steps; on GPUs
/// also how times follow the load.
struct SharedProfile {
  Tables tables;
  SlowdownFit slowdowns;
};
/// Requires and errors: as profile; `ranks_per_device` >= 1.
[[nodiscard]] Expected<SharedProfile> profile_shared(std::span<const Program> programs,
                                                     const StageModel& model, const RunOptions& run,
                                                     int ranks_per_device);

}  // namespace ppsim::planner

namespace ppsim {
using planner::profile;
using planner::profile_shared;
using planner::SharedProfile;
}  // namespace ppsim
