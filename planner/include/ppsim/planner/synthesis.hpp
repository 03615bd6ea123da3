#pragma once

#include <vector>

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/verifier/synthesis/synthesis.hpp"

namespace ppsim::planner {

/// The schedules of the registry on the chain of the request, with stage s on rank s, that are within its
/// limit: what a synthesis starts from. Those that follow costs follow the request's.
[[nodiscard]] std::vector<Schedule> known_schedules(const SynthesisRequest& request);

}  // namespace ppsim::planner

namespace ppsim {
using planner::known_schedules;
}  // namespace ppsim
