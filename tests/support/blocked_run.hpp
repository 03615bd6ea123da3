#pragma once

#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"

namespace ppsim::test {

/// One thing that a blocked run never lets come to its end.
struct Obstacle {
  enum class Kind { work, out, received } kind = Kind::work;
  std::size_t index = 0;  ///< of the instruction or message
};

/// The conditions for the end of all parts of the instruction.
std::vector<Obstacle> parts_of(const ExecutionGraph& graph, InstructionId id);

struct BlockedRun {
  std::vector<char> started;   ///< per instruction
  std::vector<char> complete;  ///< per instruction
};

/// As much of a Program as can run when one part is never over: what starts in it can start before that part
/// is over in some timing, and what does not start cannot in any.
BlockedRun run_without(const ExecutionGraph& graph, const Obstacle& obstacle);

}  // namespace ppsim::test
