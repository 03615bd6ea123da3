#pragma once

#include <cstdint>
#include <span>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::planner {

/// The share of a step, from its first start to its last end, in which the ranks compute, on average. What is
/// left out as padding does not count. Requires: every instruction of the trace is complete.
[[nodiscard]] double busy_share(const Program& program, const TimedTrace& trace);

/// How the times of computation follow the load of devices whose power is limited: they lower their clock,
/// and computation takes a time in proportion to the busy share to a power. Found by measurement: on an H200
/// the power is 0.3 to 0.4 (studies/h200, "Clock"), of times that follow the clock in part.
struct LoadFit {
  double exponent = 0;  ///< 0: times do not follow the load
  double share = 1;     ///< busy share of the steps that the costs are of

  /// By how much longer than the costs say computation takes at another busy share.
  [[nodiscard]] double factor(double busy) const;
};

/// The mean time of an action's class in the steps of one Program.
struct LoadedTime {
  std::size_t program = 0;  ///< its index
  CostClass key;
  double mean = 0;  ///< ns
  double actions = 0;
};

/// The exponent that makes the times of each class differ least between the busy shares of several Programs,
/// in least squares of logarithms, every action counting once. 0 of fewer than three Programs, where their
/// shares are alike, and where it is below 0.2 or not at least three times its standard error: a machine that
/// was a little slower for one of them would look the same. At most 0.5, which is the clock alone where power
/// grows with its square. The costs are those of the first Program's share. Requires: a share for each
/// Program.
[[nodiscard]] LoadFit fit_load(std::span<const double> shares, std::span<const LoadedTime> times);

}  // namespace ppsim::planner

namespace ppsim {
using planner::busy_share;
using planner::fit_load;
using planner::LoadedTime;
using planner::LoadFit;
}  // namespace ppsim
