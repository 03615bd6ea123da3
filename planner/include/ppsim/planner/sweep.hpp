#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::planner {

/// One simulation of many: a Program, which many points may share, under costs.
struct SweepPoint {
  std::shared_ptr<const Program> program;
  CostTable costs;
};

struct SweepOptions {
  TransportCapabilities capabilities;  ///< default: rendezvous, no residency limit
  int threads = 1;
  std::function<bool()> stopped = {};  ///< asked again and again, from several threads, whether to give up
};

/// Times of every point, without traces, memory or critical paths. Each Program is compiled once.
/// Order: that of the points, whatever the number of threads.
/// Requires: threads >= 1, no residency limit.
/// Errors: those of evaluate for the first point that has one, with its index; io where it was stopped.
[[nodiscard]] Expected<std::vector<StepTimes>> simulate_many(std::span<const SweepPoint> points,
                                                             const SweepOptions& options = {});

/// One key of a cost table and its duration at every point. Only refers to the durations.
struct CostColumn {
  CostClass key;
  std::span<const Nanoseconds> durations;
};

/// One Program under many costs: at every point those of `costs`, and over them, as in `overlaid`, the
/// columns. Only refers to its parts.
struct CostSweep {
  const Program& program;
  const CostTable& costs;
  std::span<const CostColumn> columns;
};

/// The row of one point in a sweep: the figures of its StepTimes.
struct PointTimes {
  Nanoseconds makespan = 0;
  Nanoseconds rank_span = 0;
  Nanoseconds ideal = 0;
  double bubble_fraction = 0;
  double bubble_fraction_span = 0;

  friend bool operator==(const PointTimes&, const PointTimes&) = default;
};

/// Times of one Program at every point of the columns; it is analyzed and compiled once.
/// Order: that of the points, whatever the number of threads.
/// Requires: threads >= 1, no residency limit; all columns are equally long.
/// Errors: those of evaluate; bad_argument for a duration below 0, and for durations whose largest together
/// do not fit in 64 bits; io where it was stopped.
[[nodiscard]] Expected<std::vector<PointTimes>> simulate_sweep(const CostSweep& sweep,
                                                               const SweepOptions& options = {});

/// The largest durations of a sweep, as the table of one point.
[[nodiscard]] CostTable largest_costs(const CostSweep& sweep);

}  // namespace ppsim::planner

namespace ppsim {
using planner::CostColumn;
using planner::CostSweep;
using planner::largest_costs;
using planner::PointTimes;
using planner::simulate_many;
using planner::simulate_sweep;
using planner::SweepOptions;
using planner::SweepPoint;
}  // namespace ppsim
