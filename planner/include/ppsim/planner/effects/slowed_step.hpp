#pragma once

#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/effects/shared_devices.hpp"

namespace ppsim::planner {

/// The step where computation is slowed down as `devices` say: trace and metrics of `step` become those of
/// that run. Nothing changes where nothing slows anything down, whatever else `devices` say.
/// Requires and errors: those of simulate_on_devices.
[[nodiscard]] Expected<void> slow_down(SimulatedStep& step, const SharedDevices& devices);

}  // namespace ppsim::planner

namespace ppsim {
using planner::slow_down;
}  // namespace ppsim
