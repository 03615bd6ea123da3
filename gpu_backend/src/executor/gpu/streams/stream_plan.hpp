#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::gpu_backend {

/// One instruction as work on a stream: each queue of a rank is a stream. An instruction on several queues
/// starts and completes on the first of them, which waits for the others and they for it.
struct StreamInstruction {
  InstructionId id;
  int queue = 0;
  std::vector<int> other_queues = {};
  std::vector<InstructionId> waits = {};  ///< on other streams, before it starts
  InstructionId host_wait;                ///< the host waits for it before it issues; invalid: nothing
  bool awaited = false;                   ///< some other stream or the host waits for it
  bool ends_apart = false;                ///< another HostCall ends it
};

/// A piece of work that the host of one rank enqueues.
struct HostCall {
  enum class Kind : std::uint8_t {
    begin,  ///< of an instruction of the plan
    end,    ///< of an instruction of the plan that ends apart
    move,   ///< a message of the execution graph, on its sender
    sum,    ///< a collective of the execution graph, on its lowest member
  };
  Kind kind = Kind::begin;
  std::size_t number = 0;  ///< of the instruction, the message or the collective
  InstructionId on = {};   ///< of a message or a collective: the instruction of the rank that it is of
};

/// The instructions that the host of one rank enqueues, in order: the list of the rank, but for an
/// instruction that waits for a later one of its list, which comes after that one.
///
/// A stream runs in order, so a wait is needed for predecessors on other queues alone, and only for those
/// that no other wait of the instruction, nor anything before it on its stream, implies. Every edge of the
/// execution graph within the rank is kept that way, and with it every order that the slot plan relies on.
struct StreamPlan {
  std::vector<StreamInstruction> instructions;
  std::vector<HostCall> host;  ///< in the order in which the host makes them
  std::vector<int> queues;     ///< in use, ascending; always with compute
  bool complete = true;  ///< every instruction is issued; else some wait forever, for nothing or in a circle
};

[[nodiscard]] StreamPlan plan_streams(const Program& program, const ExecutionGraph& graph, RankId rank);

/// The plans of all ranks, in one order of the whole Program: a run order, which holds where a message moves
/// and a collective sums as well. When each host keeps its part of it, and waits until the others have
/// enqueued the predecessors of its next call, everything is enqueued after its predecessors. So a Program
/// that finishes does so with any number of hardware queues, however streams share them, and CUDA sees every
/// dependence between the ranks as an event.
/// Requires: `order` is a run order of `graph`.
[[nodiscard]] std::vector<StreamPlan> plan_ranks_together(const Program& program, const ExecutionGraph& graph,
                                                          const RunOrder& order);

}  // namespace ppsim::gpu_backend
