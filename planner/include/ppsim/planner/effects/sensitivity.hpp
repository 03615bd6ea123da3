#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/planner/effects/cost_groups.hpp"
#include "ppsim/simulator/effects/step_line.hpp"

namespace ppsim::planner {

/// The exact share of one group's costs in a step, in the order of instructions that the Program has.
struct Sensitivity {
  std::string group;
  std::int64_t actions = 0;  ///< messages and collectives count once
  Nanoseconds total = 0;     ///< their time in all
  /// With all costs of the group times a factor, below and above 1: the slopes are the time of the group on
  /// the longest path (of several paths, the least and the most).
  StepGrowth scaled;
  double one_percent_less = 0;  ///< the step, in nanoseconds
  double one_percent_more = 0;
  /// With as much added to each: the factor is the smallest cost of the group, the slopes are how many of
  /// them stand on the longest path. Nothing for bandwidth and latency.
  std::optional<StepGrowth> added;
  Nanoseconds smallest = 0;
};

/// Of the whole step, for every group of a kind. Order: of the groups.
/// Errors: those of priced_items; bad_argument where costs add up to too much.
[[nodiscard]] Expected<std::vector<Sensitivity>> sensitivities(const SimulatedStep& step,
                                                               CostGrouping grouping);

/// The same for the times of a network: `network-byte` (the time of a byte, the inverse of bandwidth),
/// `network-latency` and `nvlink-byte`. Costs are assumed to be linear between those of `workload` with each
/// time and with twice each time. Groups that change nothing are left out.
/// Requires: the costs of the step are those of `workload`. Errors: those above and of binding costs.
[[nodiscard]] Expected<std::vector<Sensitivity>> network_sensitivities(const SimulatedStep& step,
                                                                       const Workload& workload);

/// How the costs of a group change where two steps are compared.
struct CostChange {
  CostGroup group;
  bool added = false;  ///< as much is added to each; else all are multiplied, unless all are 0
};

/// Which of two steps is shorter for which factors of a change (or, where it is added, nanoseconds).
struct BreakEven {
  std::string group;
  bool added = false;
  std::vector<ShorterRange> ranges;
  std::optional<Nanoseconds> cost;  ///< of each action of the group, where both steps have one and the same
};
/// Errors: those of sensitivities; bad_argument where neither step has anything of the group, or
/// one trains and the other does not.
[[nodiscard]] Expected<BreakEven> break_even(const SimulatedStep& first, const SimulatedStep& second,
                                             const CostChange& change);

}  // namespace ppsim::planner

namespace ppsim {
using planner::break_even;
using planner::BreakEven;
using planner::CostChange;
using planner::network_sensitivities;
using planner::sensitivities;
using planner::Sensitivity;
}  // namespace ppsim
