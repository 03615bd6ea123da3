#pragma once

#include <cstddef>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::verifier {

/// Why a Program cannot finish. At least one of the two lists is not empty.
struct Deadlock {
  std::vector<Wait> cycle;     ///< a shortest one; the last item waits for the first
  std::vector<Wait> culprits;  ///< for what the Program does not hold, ascending by instruction
  std::size_t blocked = 0;     ///< instructions that never complete
  friend bool operator==(const Deadlock&, const Deadlock&) = default;
};

/// Why a Program that finishes without a residency limit can hang with one: a state that some choice of which
/// ready operation takes a place leads to.
struct ResidencyHang {
  int residency = 0;  ///< places of a rank
  std::vector<NamedInstruction>
      resident;  ///< by rank: communication that holds a place of a rank that has none left
  /// From an operation without a place on: what it waits for, which are all that hold a place of its rank,
  /// and what these wait for in turn. Nothing in it waits for anything else, so none of it ever goes on.
  std::vector<Wait> waits;
  std::size_t blocked = 0;  ///< instructions that never complete
  friend bool operator==(const ResidencyHang&, const ResidencyHang&) = default;
};

/// Explains the state in which a run stopped. Without residency limit that state is the same in every timing,
/// since all waits are conjunctions. The cycle is a shortest one among the waits of that state.
/// Requires: `order` is run_order(graph) and not complete, and every message and match is complete, with ends
/// that agree.
[[nodiscard]] Deadlock explain_deadlock(const Program& program, const ExecutionGraph& graph,
                                        const RunOrder& order);

/// Looks at a reported cycle from outside: each edge is a genuine wait of the graph, each item waits for the
/// next one, and a wait for a start is followed by what keeps that instruction from starting. It reads the
/// rules for itself, without the wait analysis that reports are made with, so that it can contradict it.
/// Errors: refused, naming the first edge that does not hold.
[[nodiscard]] Expected<void> recheck_cycle(const Program& program, const ExecutionGraph& graph,
                                           const std::vector<Wait>& cycle);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::Deadlock;
using verifier::explain_deadlock;
using verifier::recheck_cycle;
using verifier::ResidencyHang;
}  // namespace ppsim
