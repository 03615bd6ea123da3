#pragma once

#include <vector>

#include "executor/rank_queues.hpp"
#include "monitor.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"

namespace ppsim::gpu_backend {

/// Everything that the head of each queue waits for.
/// Requires: the states of a run in which nothing can start or complete any more.
[[nodiscard]] std::vector<Wait> hang_report(const Program& program, const ExecutionGraph& graph,
                                            const std::vector<RankQueue>& queues,
                                            const std::vector<InstructionState>& states);

/// True where anything can start or complete. States only ever go forward, and nothing but states enables
/// anything: so where this is false of states of the instructions that were read at different moments, it is
/// false for good.
[[nodiscard]] bool can_move(const Program& program, const ExecutionGraph& graph,
                            const std::vector<InstructionState>& states);

}  // namespace ppsim::gpu_backend
