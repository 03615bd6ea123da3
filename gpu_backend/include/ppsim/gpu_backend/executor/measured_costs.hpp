#pragma once

#include <map>
#include <span>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::gpu_backend {

/// Durations of every cost class over all its occurrences in runs of one Program. A transfer and a collective
/// count from the moment when all ends have started, so that waiting for each other is no cost; with credits
/// a transfer counts from its SEND alone. Members of a group count from the start to the end of the group;
/// where its members are of several classes, only those count whose class is nowhere without another, because
/// a group takes as long as the longest of them.
using Durations = std::map<CostClass, std::vector<Nanoseconds>>;
[[nodiscard]] Durations measured_durations(const AnalyzedProgram& analyzed,
                                           std::span<const TimedTrace> traces);

/// Mean of every class without a share of the fastest and as many of the slowest, a twentieth of each unless
/// told. A step is a sum of many durations, and a sum comes to the mean of what it adds: where few are slow,
/// the median of each is less than its share of the step.
/// Requires: 0 <= outliers <= 0.1.
[[nodiscard]] CostTable mean_costs(const Durations& durations, double outliers = 0.05);
/// Quartiles of every class.
[[nodiscard]] CostSpreads cost_spreads(const Durations& durations);

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::cost_spreads;
using gpu_backend::Durations;
using gpu_backend::mean_costs;
using gpu_backend::measured_durations;
}  // namespace ppsim
