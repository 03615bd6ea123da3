#pragma once

#include <vector>

#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// The same durations on every stage.
CostTable cost_table(const StageCosts& costs);

/// Both definitions of a step's time.
struct StepTime {
  Nanoseconds makespan = 0;  ///< first start to last end over all ranks
  Nanoseconds span = 0;      ///< the longest rank's own first start to last end
};
/// Of the earliest times of a schedule.
StepTime step_time(const Schedule& schedule, const CostTable& costs);
/// Of a simulated run of the lowered Program under rendezvous.
StepTime simulated_step_time(const Schedule& schedule, const LoweringOptions& options,
                             const CostTable& costs);

/// Every way to time a schedule: the earliest times of its rows, and simulated runs of its lowered Programs.
std::vector<StepTime> step_times_of(std::string_view name, const ScheduleParameters& parameters,
                                    const StageCosts& costs);

/// Whether a row runs B or W.
bool has_backward(const Schedule& schedule, RankId rank);
/// The most (stage, microbatch, slice) between F and B or W on a rank, which the order of its row decides.
int peak_live_activations(const Schedule& schedule, RankId rank);

/// The same of every rank, counted in a simulated run of the lowered Program.
IdVector<RankId, int> simulated_peaks(const Schedule& schedule, const CostTable& costs);

/// Generates a schedule of the registry or throws with the reason.
Schedule generated(std::string_view name, const ScheduleParameters& parameters);

}  // namespace ppsim::test
