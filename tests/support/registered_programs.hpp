#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// Schedules by name, with what is said of them.
using Reasons = std::map<std::string, std::string>;

/// Which schedules of the registry ran in at least one shape, and which were refused in any, with the first
/// reason.
struct Coverage {
  std::set<std::string> ran;
  Reasons refused;
};

/// Visits the Program of every registered schedule in every shape that it has, unless the model or lowering
/// refuses it or nothing is trained.
Coverage for_each_registered(const CpuStageModel& model, std::span<const ScheduleParameters> shapes,
                             const LoweringOptions& options,
                             const std::function<void(const std::string& name, const Program&)>& visit);
/// Shapes between them possible for every schedule, the first of one rank, with whole sequences.
[[nodiscard]] std::span<const ScheduleParameters> small_shapes();
/// Those, and behind them some in slices for the schedules that have them.
[[nodiscard]] std::span<const ScheduleParameters> whole_and_sliced_shapes();

/// Of the registry what has no gradients, and a part of the reason; docs/backend.md says why.
[[nodiscard]] const Reasons& not_computed();
/// The same and what has updates of its own, where lowering is to add updates.
[[nodiscard]] const Reasons& not_updated();
/// Those and what the transformer cannot recompute in all of its stages.
[[nodiscard]] Reasons not_recomputed(const Reasons& refused);

/// "": all of the registry ran, but what is in `refused`, for the reasons that it gives. Else what is
/// otherwise.
[[nodiscard]] std::string surprises(const Coverage& found, const Reasons& refused);

}  // namespace ppsim::test
