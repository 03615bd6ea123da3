#pragma once

#include <deque>
#include <vector>

#include "executor/gpu/gpu_actions.hpp"
#include "executor/gpu/stream_plan.hpp"

namespace ppsim::gpu_backend {

/// The memory that the copy transport moves and sums. Shape: a plan for each of the actions, of all ranks
/// ascending.
[[nodiscard]] SharedMemory find_shared_memory(const Program& program, const std::vector<StreamPlan>& plans,
                                              const std::deque<GpuActions>& actions);

}  // namespace ppsim::gpu_backend
