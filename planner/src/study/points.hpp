#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ppsim/planner/study.hpp"

namespace ppsim::planner {

/// The points of a run's shard whose keys are not known. Those that have a schedule in common are one after
/// another: what they share is made once. Keeps pointers to the study.
[[nodiscard]] std::vector<const StudyPoint*> missing_points(
    const Study& study, const StudyRun& run, const std::function<bool(const std::string&)>& known);

/// A result also where costs or sizes add up to more than 64 bits hold.
[[nodiscard]] PointResult evaluated_point(PointEvaluator& evaluate, const StudyPoint& point);

}  // namespace ppsim::planner
