#pragma once

#include <optional>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::simulator {

/// Two ends of a transfer or collective that meet and name different things.
struct Mismatch {
  InstructionId first;
  InstructionId second;
  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};

/// Why a Program has no times: it is mismatched (then meaning stops there), or it deadlocks.
struct Stuck {
  std::vector<Mismatch> mismatches;     ///< in channel order; not empty: nothing was run
  std::vector<InstructionWait> stalls;  ///< one wait per incomplete instruction, ascending
  /// The stalls that follow each other from the first one up to a cycle (then only the cycle) or to something
  /// absent.
  std::vector<Wait> culprits;

  friend bool operator==(const Stuck&, const Stuck&) = default;
};

/// Every message and every match whose ends name different things, or nothing when all match.
[[nodiscard]] std::optional<Stuck> find_mismatches(const Program& program, const ExecutionGraph& graph);

/// The wait of each incomplete instruction in a run that can go no further.
[[nodiscard]] Stuck explain_stalls(const Program& program, const ExecutionGraph& graph,
                                   const RunState& state);

/// As an error of code deadlock (ill_formed when mismatched) whose message has a line `rank r: action waits
/// for rank q: action (why)` per culprit.
[[nodiscard]] Error to_error(const Program& program, const Stuck& stuck);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::explain_stalls;
using simulator::find_mismatches;
using simulator::Mismatch;
using simulator::Stuck;
using simulator::to_error;
}  // namespace ppsim
