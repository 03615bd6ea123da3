#pragma once

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/deadlock/deadlock.hpp"

namespace ppsim::verifier {

/// Who waits for whom in a state that hangs.
/// Requires: `graph` is of the Program under the transport that `state` was found for, whose residency limit
/// it hangs by: without it, it finishes.
[[nodiscard]] ResidencyHang explain_residency(const Program& program, const ExecutionGraph& graph,
                                              const HungState& state);

}  // namespace ppsim::verifier
