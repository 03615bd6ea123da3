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

}  // namespace ppsim::planner

namespace ppsim {
using planner::simulate_many;
using planner::SweepOptions;
using planner::SweepPoint;
}  // namespace ppsim
