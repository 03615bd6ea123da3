#pragma once

#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/planner/effects/cost_groups.hpp"

namespace ppsim::planner {

/// Whether a SEND waited, and how long its data was on the way. A SEND that ended before its RECV started did
/// not wait, so its class is eager; so is one where a SEND ended when its RECV started, if transfers of the
/// class take time. In an eager class only those SENDs wait whose RECV started while they ran, and which from
/// then on took more like the usual time than they did in all.
struct ReplayMessage {
  /// Its SEND waits for its RECV; with credits, for its credit.
  bool waits = true;
  /// From when nothing kept the SEND from sending to when its data was there; 0 where the RECV shows it.
  Nanoseconds arrival = 0;
  friend bool operator==(const ReplayMessage&, const ReplayMessage&) = default;
};

/// A measured step taken apart, so that it can be put together again with something changed. No time in it is
/// below 0, so that no step gets shorter when one grows.
struct ReplayCosts {
  /// Of each instruction: from the moment when nothing kept it from starting to its start.
  IdVector<InstructionId, Nanoseconds> delays;
  /// From the moment when it waited for nobody to its end: it had started, and all that it meets, the RECV of
  /// a SEND only where that SEND waits for it; and of a RECV the data was there.
  IdVector<InstructionId, Nanoseconds> durations;
  std::vector<ReplayMessage> messages;  ///< in the order of those of the timed graph
  Nanoseconds begin = 0;  ///< the first start: when the clock was started says nothing of the step
  friend bool operator==(const ReplayCosts&, const ReplayCosts&) = default;
};

/// Takes a step apart. What did not happen in the trace takes no time, as transfers in traces of PyTorch,
/// which has no ranges of them; what starts or ends before what it needs is there, as ranges of the host do,
/// counts from then on. Requires: a trace of the Program, which finishes.
[[nodiscard]] ReplayCosts replay_costs(const AnalyzedProgram& analyzed, const TimedTrace& trace);

/// Puts a step together. With the costs of a complete trace that has no trace_violations, this is the trace,
/// to the nanosecond. Rounds are all 0. Requires: costs of this Program. Errors: throws Overflow where times
/// add up to more than 64 bits hold.
[[nodiscard]] TimedTrace replayed(const AnalyzedProgram& analyzed, const ReplayCosts& costs);

/// All durations of a group times a factor, and the arrivals of its messages; delays stay.
struct ReplayChange {
  CostGroup group;
  double factor = 1;
};
/// Several changes of one action multiply. A group of transfers takes as long as the longest of its members
/// then; of one that was not the longest, the time is the mean of its class where a group has that alone.
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
/// overlapped pair as much as both of its actions; of a group of transfers the longest counts. It may have
/// another number of microbatches. Errors: bad_argument naming an action of whose class nothing was measured,
/// or what a stage was measured to compute and does not compute in the other Program.
[[nodiscard]] Expected<ReplayCosts> costs_in_other_order(const MeasuredStep& measured,
                                                         const AnalyzedProgram& other);

/// A measured step with changes: in its own order, or in that of `other` unless it is null.
/// Errors: those of costs_in_other_order and change; throws as replayed.
[[nodiscard]] Expected<TimedTrace> replay_changed(const MeasuredStep& measured, const AnalyzedProgram* other,
                                                  const std::vector<ReplayChange>& changes);

}  // namespace ppsim::planner

namespace ppsim {
using planner::costs_in_other_order;
using planner::MeasuredStep;
using planner::replay_changed;
using planner::replay_costs;
using planner::ReplayChange;
using planner::ReplayCosts;
using planner::replayed;
using planner::ReplayMessage;
}  // namespace ppsim
