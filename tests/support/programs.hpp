#pragma once

#include <initializer_list>
#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::test {

/// One instruction of one action; `communicator` -1 for compute and copy.
InstructionDraft one(Action action, int communicator = -1, std::vector<int> after = {},
                     bool blocking = false);
/// A group of transfers.
InstructionDraft group(std::initializer_list<std::pair<Action, int>> members);
/// An overlapped pair.
InstructionDraft overlap(Action forward, Action backward);

/// A chain pipeline; stage s on rank s mod ranks.
Pipeline chain(int ranks, int stages, int microbatches);

/// Builds or throws with the error's text, so that a broken fixture fails loudly.
Program program(Pipeline pipeline, ProgramDraft draft);

/// Two ranks, two stages, two microbatches with the receives deferred as PyTorch does it: deadlocks when each
/// rank has one communication queue (`directed` false), runs with a communicator per directed edge.
Program deferred_receives(bool directed);

/// The smallest useful Program: F and B of one microbatch over two ranks, directed edges.
Program two_rank_step();

}  // namespace ppsim::test
