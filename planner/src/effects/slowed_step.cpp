#include "ppsim/planner/effects/slowed_step.hpp"

#include "ppsim/core/ir/check.hpp"
#include "ppsim/simulator/metrics/measure_sized.hpp"

namespace ppsim::planner {
Expected<void> slow_down(SimulatedStep& step, const SharedDevices& devices) {
  if (!slows_down(devices)) return {};
  PPSIM_ASSIGN_OR_RETURN(auto run, simulate_on_devices(step.analyzed, step.contended(), devices));
  PPSIM_CHECK(run.has_value(), "what could be evaluated finishes");
  step.trace = *std::move(run);
  step.slowed_down = true;
  step.metrics = measure(step.timed_run(), step.tensors);
  return {};
}

}  // namespace ppsim::planner
