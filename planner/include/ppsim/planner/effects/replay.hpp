#pragma once

#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/planner/effects/cost_groups.hpp"

namespace ppsim::planner {

/// A measured step taken apart, so that it can be put together again with something changed.
struct ReplayCosts {
  /// Of each instruction: from the moment when nothing kept it from starting to its start.
  IdVector<InstructionId, Nanoseconds> delays;
  /// From the moment when it had started on all sides to its end. A transfer has one at either end; of a SEND
  /// that waited for nobody it may be below 0.
  IdVector<InstructionId, Nanoseconds> durations;
  friend bool operator==(const ReplayCosts&, const ReplayCosts&) = default;
};

/// Takes a step apart. What did not happen in the trace takes no time, as transfers in traces of PyTorch,
/// which has no ranges of them; computation that starts before what it needs is there, as ranges of the host
/// do, counts from then on. Requires: a trace of the Program, which finishes.
[[nodiscard]] ReplayCosts replay_costs(const AnalyzedProgram& analyzed, const TimedTrace& trace);

/// Puts a step together. With the costs of a complete trace that has no trace_violations, this is the trace,
/// to the nanosecond. Rounds are all 0. Requires: costs of this Program. Errors: throws Overflow where times
/// add up to more than 64 bits hold.
[[nodiscard]] TimedTrace replayed(const AnalyzedProgram& analyzed, const ReplayCosts& costs);

/// All durations of a group times a factor; delays stay.
struct ReplayChange {
  CostGroup group;
  double factor = 1;
};
/// Several changes of one instruction multiply. Of a group of transfers each member counts.
/// Errors: bad_argument for a group that nothing is in, and a factor out of [0, 10^6].
[[nodiscard]] Expected<void> change(const AnalyzedProgram& analyzed, const std::vector<ReplayChange>& changes,
                                    ReplayCosts& costs);

/// A step and where it was measured.
struct MeasuredStep {
  const AnalyzedProgram& analyzed;
  const ReplayCosts& costs;
};
/// The costs of another Program that does the same actions in another order: each takes what it took,
/// wherever it is now. One that was not measured takes the mean of its class over other microbatches; an
/// overlapped pair as much as both of its actions; of a group of transfers the longest counts. Errors:
/// bad_argument naming an action of whose class nothing was measured.
[[nodiscard]] Expected<ReplayCosts> costs_in_other_order(const MeasuredStep& measured,
                                                         const AnalyzedProgram& other);

}  // namespace ppsim::planner

namespace ppsim {
using planner::costs_in_other_order;
using planner::MeasuredStep;
using planner::replay_costs;
using planner::ReplayChange;
using planner::ReplayCosts;
using planner::replayed;
}  // namespace ppsim
