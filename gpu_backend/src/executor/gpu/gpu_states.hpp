#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "executor/watch/monitor.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "rank_run.hpp"

namespace ppsim::gpu_backend {

/// The states of instructions, by the events of the ranks, in a step that stands still. A compute or copy
/// action without an event is taken as complete where all that it waits for is: only communication waits for
/// other ranks.
[[nodiscard]] std::vector<InstructionState> read_states(const Program& program, const ExecutionGraph& graph,
                                                        const std::deque<RankRun>& runs);

/// A compute or copy action that has started and is not complete, if there is one.
[[nodiscard]] std::optional<InstructionId> running_action(const Program& program,
                                                          const std::vector<InstructionState>& states);

/// Whether all ranks have done their step, after a look at each. Errors: throws what a device reports, with
/// the instructions that its ranks had in flight when they were last looked at: one of these has failed.
[[nodiscard]] bool all_complete(const Program& program, std::deque<RankRun>& runs);

}  // namespace ppsim::gpu_backend
