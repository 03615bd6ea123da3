#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::test {

/// The most memory of each rank over all states that some timing passes through, found by visiting them all:
/// what is in flight may end in any order, what can start or arrive does so at once. Returns: nothing when
/// there are more than `limit` states.
[[nodiscard]] std::optional<std::vector<Bytes>> max_memory_of_all_states(const Program& program,
                                                                         const ExecutionGraph& graph,
                                                                         const std::vector<Bytes>& sizes,
                                                                         std::size_t limit);

}  // namespace ppsim::test
