#include "ppsim/planner/effects/slowed_step.hpp"

#include <algorithm>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/metrics/measure_sized.hpp"

namespace ppsim::planner {
namespace {

/// Whether no device can slow anything down, so that a run has the times that the step has already.
bool are_at_full_speed(const SharedDevices& devices) {
  return devices.own_transfers == 0 && devices.own_collectives == 0 &&
         std::ranges::all_of(devices.slowdowns, [](const auto& slowdown) { return slowdown.second == 0; });
}

}  // namespace

Expected<void> slow_down(SimulatedStep& step, const SharedDevices& devices) {
  if (are_at_full_speed(devices)) return {};
  PPSIM_ASSIGN_OR_RETURN(auto run, simulate_on_devices(step.analyzed, step.contended(), devices));
  PPSIM_CHECK(run.has_value(), "what could be evaluated finishes");
  step.trace = *std::move(run);
  step.metrics = measure(step.timed_run(), step.tensors);
  return {};
}

}  // namespace ppsim::planner
