#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "cuda/rank_run.hpp"
#include "monitor.hpp"
#include "ppsim/core/execution_graph.hpp"

namespace ppsim {

/// What the events of the ranks tell about a step that stands still. A compute or copy action without an
/// event is taken as complete where all that it waits for is: only communication waits for other ranks.
[[nodiscard]] std::vector<InstructionState> read_states(const Program& program, const ExecutionGraph& graph,
                                                        const std::deque<RankRun>& runs);

/// A compute or copy action that has started and is not complete; nothing where there is none.
[[nodiscard]] std::optional<InstructionId> running_action(const Program& program,
                                                          const std::vector<InstructionState>& states);

}  // namespace ppsim
