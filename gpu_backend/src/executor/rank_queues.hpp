#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// The work of one thread: the instructions of one queue of one rank, in issue order. A group on several
/// queues counts to the first; it starts when it heads all its queues because the execution graph has
/// it wait for the instruction before it on each.
///
/// There is no thread that issues (E1): nothing in a list can be issued late but for a blocking instruction,
/// and the execution graph has every instruction wait for the last blocking one before it.
struct RankQueue {
  RankId rank;
  int queue = 0;
  std::vector<InstructionId> instructions;
};

/// Queues of the ranks in [begin, end). Order: by rank, then queue; queues without instructions are left out.
[[nodiscard]] std::vector<RankQueue> rank_queues(const Program& program, int begin, int end);
/// Those of all ranks.
[[nodiscard]] std::vector<RankQueue> rank_queues(const Program& program);

}  // namespace ppsim::gpu_backend
