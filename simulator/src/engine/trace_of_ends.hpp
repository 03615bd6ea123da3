#pragma once

#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// Start and end of every instruction from the ends of all items.
[[nodiscard]] TimedTrace trace_of_ends(const CompiledProgram& program, const ExecutionGraph& graph,
                                       const std::vector<Instant>& ends);

}  // namespace ppsim::simulator
