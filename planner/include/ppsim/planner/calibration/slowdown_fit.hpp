#pragma once

#include <span>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/planner/calibration/load_fit.hpp"
#include "ppsim/simulator/effects/shared_devices.hpp"

namespace ppsim::planner {

/// Measured steps of one Program. Only refers to its parts.
struct MeasuredRuns {
  const AnalyzedProgram& analyzed;
  std::span<const TimedTrace> traces;
};

/// The fitted slowdown of one kind of computation.
struct KindSlowdown {
  OpKind kind = OpKind::forward;
  std::int64_t actions = 0;
  double others = 0;    ///< mean number of others that computed beside an action
  double slowdown = 0;  ///< share of its time that an action takes longer for each of them
  bool own = false;     ///< from this kind alone; else it has too little variety and that of all kinds holds
  double spread_before = 0;  ///< mean absolute deviation from the median of a class, as a share of it
  double spread_after = 0;   ///< the same of the times alone that the slowdown leaves
};

/// Slowdowns, and what each action takes alone.
struct SlowdownFit {
  SharedDevices devices;
  /// Of all classes of the steps, at the load of the first Program; transfers, copies and collectives as they
  /// were measured.
  CostTable alone;
  std::vector<KindSlowdown> kinds;
  LoadFit load;
};

/// Of each action of the steps it is known which other ranks of its device computed while it did. The
/// slowdown is the one that makes the times alone of a class differ least, in sums of absolute deviations of
/// their logarithms, so that a few outliers decide nothing; it is never below 0. A kind that ran among as
/// many others at all times says nothing about it and has that of all kinds together. `undisturbed` is 0
/// unless another number explains clearly more. `alone` has the means of mean_costs. With `by_load` only
/// times of one Program are held against each other, and what times alone differ by from Program to Program
/// may be due to the load (fit_load). Requires: `ranks` >= 1 consecutive ones share a device; one pipeline in
/// all runs.
[[nodiscard]] SlowdownFit fit_slowdowns(std::span<const MeasuredRuns> runs, int ranks, bool by_load = false);

}  // namespace ppsim::planner

namespace ppsim {
using planner::fit_slowdowns;
using planner::KindSlowdown;
using planner::MeasuredRuns;
using planner::SlowdownFit;
}  // namespace ppsim
