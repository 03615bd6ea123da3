#pragma once

#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim::simulator {

/// Whether some instruction is more than one transfer.
[[nodiscard]] inline bool has_groups(const Program& program, const ExecutionGraph& graph) {
  if (program.action_count() == program.size()) return false;  // each is one action
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph.message_begin[i + 1] - graph.message_begin[i] > 1) return true;
  }
  return false;
}

}  // namespace ppsim::simulator
