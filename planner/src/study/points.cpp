#include "study/points.hpp"

#include <algorithm>

#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::planner {

std::vector<const StudyPoint*> missing_points(const Study& study, const StudyRun& run,
                                              const std::function<bool(const std::string&)>& known) {
  std::vector<const StudyPoint*> missing;
  for (std::size_t i = 0; i < study.points.size(); ++i) {
    if (static_cast<int>(i % as_size(run.shards)) != run.shard) continue;
    if (!known(study.points[i].key())) missing.push_back(&study.points[i]);
  }
  const auto schedule_of = [](const StudyPoint* point) {
    std::vector<std::string> values;
    for (const char* name : {"schedule", "pp", "chunks", "dp", "microbatch_size"}) {
      const auto found = point->values.find(name);
      values.push_back(found == point->values.end() ? "" : found->second);
    }
    return values;
  };
  std::ranges::stable_sort(missing, {}, schedule_of);
  return missing;
}

PointResult evaluated_point(PointEvaluator& evaluate, const StudyPoint& point) {
  try {
    return evaluate(point);
  } catch (const Overflow& sum) {  // must not leave its thread
    return {.status = PointStatus::impossible, .reason = sum.what()};
  }
}

}  // namespace ppsim::planner
