#pragma once

#include <string>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/sized_tensors.hpp"
#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/planner/phase_times.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::planner {

/// One simulated step of a Program under costs, with everything that the simulator says about it.
struct SimulatedStep {
  std::string name;
  AnalyzedProgram analyzed;
  CostBinding costs;
  TimedTrace trace;
  RunMetrics metrics;
  IdVector<RankId, Bytes> communicator_bytes = {};  ///< of the transport; empty where it takes none
  SizedTensors tensors = {};                        ///< at the sizes of the costs
  double simulate_seconds = 0;  ///< the engine alone: no lowering, graph, memory or output
  PhaseTimes phases = {};       ///< from the graph to the metrics
  bool slowed_down = false;     ///< its computation, beyond the costs, by slow_down()

  [[nodiscard]] const Program& program() const { return analyzed.program(); }
  [[nodiscard]] const TransportCapabilities& capabilities() const { return analyzed.capabilities(); }
  [[nodiscard]] TimedRun timed_run() const {
    return {analyzed, trace, costs.tables.costs, costs.tables.sizes};
  }
  [[nodiscard]] ContendedCosts contended() const {
    return {costs.tables.costs, costs.tables.beside_transfers};
  }
  /// Tokens and operations of the step; zeros where the costs say nothing of them.
  [[nodiscard]] StepWork work() const;
  /// The makespan and, of training, what the costs know of the step's end beyond the actions of the Program.
  [[nodiscard]] Nanoseconds step() const;
  /// Largest peak of a rank.
  [[nodiscard]] Bytes peak_bytes() const;
  /// Most that communicators take on a rank.
  [[nodiscard]] Bytes max_communicator_bytes() const;
  /// Bytes that all ranks send to each other in the step, or a rank to others; nothing where there are
  /// messages and no size of any.
  [[nodiscard]] std::optional<Bytes> sent_bytes() const;
  [[nodiscard]] std::optional<Bytes> sent_bytes(RankId rank) const;
  /// True where every rank's peak is within the memory of its GPU, beside its communicators, or that is
  /// unknown.
  [[nodiscard]] bool fits() const;
};

/// Errors: ill_formed when the Program is not well-formed or mismatched, deadlock when it cannot finish, both
/// with the culprits; those of binding costs.
[[nodiscard]] Expected<SimulatedStep> evaluate(std::string name, Program program, CostBinding costs,
                                               const TransportCapabilities& capabilities = rendezvous());

}  // namespace ppsim::planner

namespace ppsim {
using planner::evaluate;
using planner::SimulatedStep;
}  // namespace ppsim
