#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/ir/op_kind.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::planner {

/// The time of all actions of a kind in one step. Of a transfer and a collective only the time counts
/// in which it is in flight; a transfer stands under its SEND.
struct KindComparison {
  OpKind kind = OpKind::forward;
  std::int64_t count = 0;
  Nanoseconds measured = 0;
  Nanoseconds simulated = 0;

  friend bool operator==(const KindComparison&, const KindComparison&) = default;
};

/// Where the compute queues of all ranks stand idle between the first start of a step and its last end. The
/// parts add up to that time less the time in which they are busy with the batch.
struct IdleSplit {
  Nanoseconds busy = 0;
  /// Nothing that the next action needs is in flight; at the end: nothing is left. Computation for padding.
  Nanoseconds wait = 0;
  Nanoseconds transfer = 0;    ///< a transfer, collective or copy for it is in flight, for what it costs
  Nanoseconds contention = 0;  ///< the same beyond its cost
  Nanoseconds launch = 0;      ///< all that the action waits for is complete

  [[nodiscard]] Nanoseconds idle() const { return wait + transfer + contention + launch; }
  /// The idle share of all that time, 0 of no time: the bubble.
  [[nodiscard]] double bubble() const {
    return idle() == 0 ? 0 : static_cast<double>(idle()) / static_cast<double>(busy + idle());
  }
  friend bool operator==(const IdleSplit&, const IdleSplit&) = default;
};

/// The idle time of a run, simulated or measured, by when both ends of its transfers were ready.
/// Requires: every instruction of the trace is complete.
[[nodiscard]] IdleSplit idle_split(const TimedRun& run);

/// A measured step beside the simulated one.
struct RunComparison {
  std::vector<KindComparison> kinds;  ///< those that occur, in the order of OpKind
  IdleSplit measured;
  IdleSplit simulated;
  friend bool operator==(const RunComparison&, const RunComparison&) = default;
};

/// Requires: a finished run of the Program on its transport, whose instructions were timed.
[[nodiscard]] RunComparison compare_run(const AnalyzedProgram& analyzed, const VerifiedRun& run);

}  // namespace ppsim::planner

namespace ppsim {
using planner::compare_run;
using planner::idle_split;
using planner::IdleSplit;
using planner::KindComparison;
using planner::RunComparison;
}  // namespace ppsim
