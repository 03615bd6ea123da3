#pragma once

#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/simulator/engine/compiled_program.hpp"

namespace ppsim::simulator {

/// The durations of a compiled Program.
struct BoundCosts {
  std::vector<Nanoseconds> durations;  ///< kJoin, kInstant, then one per cost class
  friend bool operator==(const BoundCosts&, const BoundCosts&) = default;
};

/// Errors: bad_argument when all durations together do not fit in 64 bits.
[[nodiscard]] Expected<BoundCosts> bind_costs(const CompiledProgram& program, const CostTable& costs);

/// When the compute queue of a rank starts, ends and works; all 0 for a rank that computes nothing.
struct RankTimes {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  Nanoseconds busy = 0;

  [[nodiscard]] Nanoseconds span() const { return end - start; }
  friend bool operator==(const RankTimes&, const RankTimes&) = default;
};

/// The result of one run that a schedule search needs.
struct StepTimes {
  Nanoseconds makespan = 0;  ///< end of the last instruction
  IdVector<RankId, RankTimes> ranks;

  friend bool operator==(const StepTimes&, const StepTimes&) = default;
};

/// Largest span of a rank.
[[nodiscard]] Nanoseconds rank_span(const StepTimes& times);
/// Largest compute time of a rank: no schedule of the same actions is shorter.
[[nodiscard]] Nanoseconds ideal_time(const StepTimes& times);
/// 1 - mean compute time of the ranks / makespan; 0 for a step that takes no time.
[[nodiscard]] double bubble_fraction(const StepTimes& times);
/// 1 - compute time / span of the rank with the longest span; 0 for a step that takes no time.
[[nodiscard]] double bubble_fraction_span(const StepTimes& times);

/// Memory that simulate reuses from call to call.
struct SimulationScratch {
  std::vector<Nanoseconds> ends;
};

/// Times of one run, in nanoseconds only: the fast way.
/// Requires: `costs` was bound to `program`.
[[nodiscard]] StepTimes simulate(const CompiledProgram& program, const BoundCosts& costs,
                                 SimulationScratch& scratch);

/// Start and end of every instruction, with rounds.
/// Requires: `graph` is the timed one of what `program` was compiled from, `costs` belong to it.
[[nodiscard]] TimedTrace simulate_trace(const CompiledProgram& program, const ExecutionGraph& graph,
                                        const BoundCosts& costs);

/// The durations of actions, and of computation while a transfer or a collective of its rank is in flight
/// (from the start of its own end to its completion), where that is a kernel which holds multiprocessors: on
/// transports that guarantee an order of launches. Between the two an action goes on at the one speed or the
/// other. Only refers to its parts.
struct ContendedCosts {
  const CostTable& costs;
  const CostTable& beside_transfers;  ///< empty: the same costs; an entry below that of `costs` counts as it

  /// Whether transfers of such a transport slow anything down.
  [[nodiscard]] bool differ_on(const TransportCapabilities& capabilities) const;
};

/// The result of a run on a transport. With a residency limit, the ready operation of the lowest position
/// takes a free place.
using SimulatedRun = tl::expected<TimedTrace, Stuck>;

/// Analyzes, compiles, binds and simulates with rounds.
/// Errors: bad_argument from bind_costs; that a Program is stuck is an answer.
[[nodiscard]] Expected<SimulatedRun> simulate_program(const Program& program,
                                                      const TransportCapabilities& capabilities,
                                                      const CostTable& costs);

/// The same, event by event where transfers slow computation down. Under a residency limit they do not.
[[nodiscard]] Expected<SimulatedRun> simulate_beside_transfers(const AnalyzedProgram& analyzed,
                                                               const ContendedCosts& costs);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::bind_costs;
using simulator::BoundCosts;
using simulator::bubble_fraction;
using simulator::bubble_fraction_span;
using simulator::ContendedCosts;
using simulator::ideal_time;
using simulator::rank_span;
using simulator::RankTimes;
using simulator::simulate;
using simulator::simulate_beside_transfers;
using simulator::simulate_program;
using simulator::simulate_trace;
using simulator::SimulatedRun;
using simulator::SimulationScratch;
using simulator::StepTimes;
}  // namespace ppsim
