#pragma once

#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// One instruction as work on a stream: each queue of a rank is a stream. An instruction on several queues
/// starts and completes on the first of them, which waits for the others and they for it.
struct StreamStep {
  InstructionId id;
  int queue = 0;
  std::vector<int> other_queues = {};
  std::vector<InstructionId> waits = {};  ///< on other streams, before it starts
  InstructionId host_wait;                ///< the host waits for it before it issues; invalid: nothing
  bool awaited = false;                   ///< some other stream or the host waits for it
};

/// The instructions that the host of one rank enqueues, in order: the list of the rank, but for an
/// instruction that waits for a later one of its list, which comes after that one.
///
/// A stream runs in order, so a wait is needed for predecessors on other queues alone, and only for those
/// that no other wait of the instruction, nor anything before it on its stream, implies. Every edge of the
/// execution graph within the rank is kept that way, and with it every order that the slot plan relies on.
struct StreamPlan {
  std::vector<StreamStep> steps;
  std::vector<int> queues;  ///< in use, ascending; compute is always there
  bool complete = true;  ///< every instruction is issued; else some wait forever, for nothing or in a circle
};

[[nodiscard]] StreamPlan plan_streams(const Program& program, const ExecutionGraph& graph, RankId rank);

}  // namespace ppsim::gpu_backend
